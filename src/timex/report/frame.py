"""Explanations as tables: a row per cell, and a row per class.

Shapes: N samples, T time steps, D channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from timex.metrics.landmarks import unit
from timex.records import Explanation
from timex.report.embed import Columns, pack_method
from timex.report.overview import class_rows
from timex.report.places import features
from timex.report.samples import channel_names, class_name
from timex.report.spans import important_spans

if TYPE_CHECKING:
    import pandas as pd

TOP_CHANNELS = 3
"""Channels that the summary names for each class."""


def cell_frame(e: Explanation) -> pd.DataFrame:
    """One row per observed cell; see `Explanation.to_frame`."""
    import pandas as pd

    n, t, d = e.x.shape
    names = np.array(e.channels or [f"channel_{k}" for k in range(d)])
    labels = np.array(e.classes or [str(c) for c in range(e.probability.shape[1])])
    frame = {
        "sample": np.repeat(np.arange(n), t * d),
        "step": np.tile(np.repeat(np.arange(t), d), n),
        "time": np.repeat(e.times.reshape(-1), d),
        "channel": np.tile(names, n * t),
        "value": e.x.reshape(-1),
        "attribution": e.attribution.reshape(-1),
    }
    if e.numbers is None:
        frame["prediction"] = np.repeat(labels[e.prediction], t * d)
        if e.contrast is not None:
            frame["contrast"] = np.repeat(labels[e.contrast], t * d)
    elif e.numbers.shape[1] == 1:
        frame["prediction"] = np.repeat(e.numbers[:, 0], t * d)
    if e.series.ids:
        frame["id"] = np.repeat(np.array(e.series.ids), t * d)
    if e.series.y is not None:
        frame["label"] = np.repeat(labels[e.series.y], t * d)
    if e.series.truth is not None:
        frame["truth"] = e.series.truth.reshape(-1)
    if e.mask is not None:
        frame["mask"] = e.mask.reshape(-1)
    if e.direction is not None:
        frame["direction"] = e.direction.reshape(-1)
    if e.agreement is not None:
        frame["agreement"] = np.repeat(e.agreement, t * d)
    return pd.DataFrame(frame)[e.observed.reshape(-1)].reset_index(drop=True)


def class_frame(e: Explanation) -> pd.DataFrame:
    """One row per explained class; see `Explanation.summary`."""
    import pandas as pd

    rows = class_rows(e, np.arange(len(e)), _points(e)) if len(e) else []
    return pd.DataFrame([_class_row(e, row) for row in rows]).set_index("class") if rows else pd.DataFrame()


def _points(e: Explanation) -> Any:
    """Places of the explanations, (N, Z): their embeddings, or their attributions where there are none."""
    if e.embedding is not None:
        return unit(e.embedding)
    everything = np.arange(len(e))
    return features(pack_method(e, Columns.of(e, everything), everything, e.method, 0)[0]["attribution-0"])


def _class_row(e: Explanation, row: dict[str, Any]) -> dict[str, Any]:
    members = np.flatnonzero(e.prediction == row["class"])
    share = row["channels"]
    top = [k for k in np.argsort(-np.array(share), kind="stable")[:TOP_CHANNELS] if share[k] > 0]
    found = [important_spans(e, int(i), n=e.x[i].size) for i in members]
    typical = row["exemplar"]
    spans = [] if typical is None else important_spans(e, typical)
    facts = {
        "class": class_name(e, row["class"]),
        "samples": row["samples"],
        "accuracy": row["accuracy"],
        "agreement": row["agreement"],
        "kept": row["kept"],
        "channels": ", ".join(f"{channel_names(e)[k]} {share[k]:.0%}" for k in top),
        "spans": float(np.mean([len(spans_of_one) for spans_of_one in found])),
        "typical": typical,
        "typical_spans": "; ".join(map(str, spans)),
    }
    return {name: value for name, value in facts.items() if value is not None}
