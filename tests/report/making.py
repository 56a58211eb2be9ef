"""Explanations and landmarks made up for the tests of this folder."""

import dataclasses

import numpy as np

from timex.method.landmarks import Landmarks
from timex.records import Explanation, Series

C, Z = 2, 4
OF_SERIES = {f.name for f in dataclasses.fields(Series)}


def make(n=9, t=14, d=3, **changes):
    """Explanations of noise; `changes` may name fields of the explanation and of its series."""
    rng = np.random.default_rng(n * t * d)
    attribution = rng.random((n, t, d)).astype(np.float32)
    given = {
        "x": rng.normal(size=(n, t, d)).astype(np.float32) * 7,
        "attribution": attribution,
        "prediction": np.arange(n) % C,
        "probability": np.where(np.arange(n)[:, None] % C == np.arange(C), 0.9, 0.1).astype(np.float32),
        "method": "timex",
        "mask": attribution > 0.5,
        "embedding": rng.normal(size=(n, Z)).astype(np.float32),
        "landmark": np.arange(n) % 3,
        "agreement": np.arange(n) % 3 != 1,
        "divergence": np.linspace(0.0, 0.4, n).astype(np.float32),
        "channels": tuple(f"sensor {k}" for k in range(d)),
        "classes": ("calm", "storm"),
    }
    given |= changes
    series = Series(**{name: v for name, v in given.items() if name in OF_SERIES})
    return Explanation(series=series, **{name: v for name, v in given.items() if name not in OF_SERIES})


def make_landmarks(counts=(2, 9, 4), vectors=None):
    """Landmarks on the axes of the latent space, or at `vectors`; every training explanation is of the first class."""
    counts = np.asarray(counts)
    n = len(counts)
    return Landmarks(
        vectors=np.asarray(np.eye(n, Z) if vectors is None else vectors, dtype=np.float32),
        counts=counts,
        nearest=np.zeros((n, 1), dtype=np.int64),
        similarity=np.ones((n, 1), dtype=np.float32),
        composition=np.stack([counts, 0 * counts], axis=1),
    )


def make_demo(n=120, t=50, d=1, **changes):
    """Explanations whose attribution follows a bump, with some that are wrong (5), weak (7) and empty (3).

    The place of the bump gives one of four classes; channel 0 has it, others are noise.
    """
    rng = np.random.default_rng(5)
    y = np.arange(n) % 4
    start = 3 + 11 * y + rng.integers(0, 4, n)
    bump = np.zeros((n, t, d), dtype=bool)
    bump[..., 0] = (np.arange(t) >= start[:, None]) & (np.arange(t) < start[:, None] + 6)
    p = np.where(bump, 0.85, 0.12) + rng.normal(0, 0.05, size=(n, t, d))
    p[[10, 50, 90]] = 0.2
    p = np.clip(p, 0, 1).astype(np.float32)
    prediction = y.copy()
    prediction[[4, 13, 22, 31, 40]] = (y[[4, 13, 22, 31, 40]] + 1) % 4
    z = np.eye(4)[prediction] + rng.normal(0, 0.25, size=(n, 4))
    given = {
        "x": (rng.normal(0, 0.3, size=(n, t, d)) + 2 * bump).astype(np.float32),
        "truth": bump,
        "y": y,
        "attribution": p,
        "mask": p > 0.5,
        "prediction": prediction,
        "probability": np.where(np.eye(4)[prediction] == 1, 0.85, 0.05).astype(np.float32),
        "embedding": z.astype(np.float32),
        "landmark": (z.argmax(axis=1)),
        "agreement": ~np.isin(np.arange(n), [5, 17, 29, 41, 53, 65, 77]),
        "channels": tuple(f"sensor {k}" for k in range(d)),
        "classes": ("early", "second", "third", "late"),
    }
    return make(n, t, d, **(given | {"divergence": np.linspace(0, 0.4, n).astype(np.float32)} | changes))


def checked(verdict="weak"):
    """What `Check.to_dict()` gives, with one weak finding; the last class is the default."""
    good = {"verdict": "trust", "advice": ""}
    alone = {**good, "name": "kept alone", "value": 0.97, "meaning": "the same class for 97.0% of the series"}
    without = {**good, "name": "without kept", "value": 0.11, "meaning": "the same class for 11.0% of the series"}
    doubt = {"name": "amplitude", "value": 0.9, "verdict": "weak", "meaning": "as the size of the values", "advice": "compare"}
    classes = [
        {"name": name, "n": 30, "verdict": "trust", "findings": [alone, without] if name != "late" else []}
        for name in ("early", "second", "third", "late")
    ]
    overall = {"name": "all series", "n": 200, "verdict": verdict, "findings": [alone, without, doubt]}
    return {"verdict": verdict, "default_class": "late", "overall": overall, "classes": classes}
