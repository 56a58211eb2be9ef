"""The pictures of docs/ecg.md: a left and a right bundle branch block, as a quickly trained network sees them.

Run python docs/site/beats.py after `timex data prepare ecg`. It takes about a minute of one core.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

from timex import Dataset, Series, TimeX, TimeXConfig, load_dataset
from timex.reference.train import TrainConfig, train_references

IMAGES = Path(__file__).resolve().parents[1] / "images"
BLOCKS = {1: "ecg-1", 2: "ecg-2"}
"""Left and right block: the class and the name of its picture."""
NAMES = ("normal", "left block", "right block")


def some(part: Series, n: int) -> Series:
    """The first `n` beats of each of the three classes."""
    rows = np.concatenate([np.flatnonzero(part.labels == c)[:n] for c in range(len(NAMES))])
    return part.take(np.random.default_rng(0).permutation(rows))


def draw(out: Path) -> None:
    """Train, fit, explain, and draw the most typical explanation of either block."""
    five = load_dataset("ecg_five")
    train, val, test = some(five.train, 800), some(five.val, 200), some(five.test, 200)
    data = Dataset.named("blocks", train, val, test, five.channels, NAMES)
    trained = train_references([data], "cnn", TrainConfig(epochs=3, lr=2e-3, model={"width": 32}))[0]
    explainer = TimeX(trained.model, config=TimeXConfig(epochs=6)).fit(data.train, x_val=data.val)
    e = explainer.explain(data.test)
    print(e.summary().to_string())
    print(explainer.check(data.test))
    with matplotlib.rc_context({"svg.hashsalt": "timex"}):
        for c, name in BLOCKS.items():
            sample = int(e.summary()["typical"][NAMES[c]])
            e.plot(sample).savefig(out / f"{name}.svg", dpi=110, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
