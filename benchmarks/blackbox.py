"""White box and black box: the same trained network explained with its gradients, and as a function that only answers.

    python benchmarks/blackbox.py --out blackbox.json
    python benchmarks/blackbox.py --data freqshapes --arch cnn gru       # some cells alone
    python benchmarks/blackbox.py --short                                # short fits on 400 series

TimeX explains the network both ways; occlusion and KernelSHAP explain the function. AUPRC compares scores with the known
deciding cells of test series that the network classifies correctly. A model call is one series that passes through the network.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from common import Rows, data_of, parser, timed, write
from torch import Tensor, nn

from timex import Dataset, TimeX, TimeXConfig
from timex.explainers.base import Explainer
from timex.metrics import truth_scores
from timex.reference import student
from timex.registry import EXPLAINERS

N_TRAIN, N_TEST = 1000, 50
SHORT_SERIES, SHORT_EPOCHS, SHORT_STUDENT = 400, 15, 400
"""Training series and epochs of a short fit, and training steps of its student."""
EPOCHS = 30
WIDTH = 48
COLUMNS = ("data", "arch", "accuracy", "explained as", "method", "AUPRC", "fit calls", "calls per series", "fit_s")


class Calls:
    """Counts the series that pass through a network; copies of the network count together."""

    def __init__(self) -> None:
        self.series = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Calls:
        return self


class Network(nn.Module):
    """A network from (B, T, D) to logits (B, C) over one of three bodies, with the largest state over time as embedding."""

    def __init__(self, arch: str, n_channels: int, n_classes: int) -> None:
        super().__init__()
        self.arch, self.calls = arch, Calls()
        self.head = nn.Linear(WIDTH, n_classes)
        if arch == "cnn":
            sizes = ((n_channels, 7), (WIDTH, 5), (WIDTH, 3))
            layers = [nn.Sequential(nn.Conv1d(c, WIDTH, k, padding=k // 2), nn.ReLU()) for c, k in sizes]
            self.body: nn.Module = nn.Sequential(*layers)
        elif arch == "gru":
            self.body = nn.GRU(n_channels, WIDTH // 2, batch_first=True, bidirectional=True)
        else:
            self.embed = nn.Conv1d(n_channels, WIDTH, 5, padding=2)
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (B, C)."""
        self.calls.series += len(x)
        if self.arch == "cnn":
            states = self.body(x.transpose(1, 2)).transpose(1, 2)
        elif self.arch == "gru":
            states = self.body(x)[0]
        else:
            h = self.embed(x.transpose(1, 2)).transpose(1, 2)
            states = self.body(h + waves(h))
        return self.head(states.amax(1))


def waves(h: Tensor) -> Tensor:
    """Positions as sines and cosines, (T, WIDTH)."""
    rate = 100 ** -(torch.arange(h.shape[2]) // 2 / (h.shape[2] / 2))
    angle = torch.arange(h.shape[1])[:, None] * rate
    return torch.where(torch.arange(h.shape[2]) % 2 == 0, angle.sin(), angle.cos())


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="*", default=["freqshapes", "seqcomb_mv"])
    options.add_argument("--arch", nargs="*", default=["cnn", "gru", "transformer"])
    options.add_argument("--short", action="store_true", help="short fits, for a slow machine")
    arguments = options.parse_args(argv)
    if arguments.short:
        student.STEPS = SHORT_STUDENT
    warnings.simplefilter("ignore")
    torch.set_num_threads(arguments.threads)
    rows: Rows = []
    for name in arguments.data:
        data = data_of(name, smoke=arguments.smoke)
        for arch in arguments.arch:
            for row in compared(name, arch, data, arguments):
                print("|", " | ".join(map(str, row.values())), "|", flush=True)
                rows.append(row)
                if arguments.out:  # after every row: a run may be cut off
                    write({"n_train": N_TRAIN, "short": arguments.short, "rows": rows}, arguments)


def compared(name: str, arch: str, data: Dataset, arguments: argparse.Namespace) -> Rows:
    """A row for each way and method of explaining one trained network."""
    epochs = 1 if arguments.smoke else EPOCHS
    network = trained(arch, data, epochs)
    test = data.test
    with torch.no_grad():
        right = network(torch.as_tensor(test.x)).argmax(-1).numpy() == test.labels
    explained = test.take(np.flatnonzero(right)[:N_TEST] if right.any() else slice(0, N_TEST))

    def answer(x: Any) -> Tensor:
        with torch.no_grad():
            return network(torch.as_tensor(x)).softmax(-1)

    short = arguments.short or arguments.smoke
    config = TimeXConfig(epochs=1 if arguments.smoke else SHORT_EPOCHS) if short else None
    series = data.train.take(slice(0, SHORT_SERIES if short else N_TRAIN))
    ways: list[tuple[str, str, Callable[[], Explainer[Any]]]] = [
        ("network", "timex", lambda: TimeX(network, config=config, device="cpu")),
        ("function", "timex", lambda: TimeX(answer, config=config, device="cpu")),
        ("function", "occlusion", lambda: EXPLAINERS["occlusion"](answer, device="cpu")),
        ("function", "kernel_shap", lambda: EXPLAINERS["kernel_shap"](answer, device="cpu")),
    ]
    rows: Rows = []
    for way, method, make in ways:
        start = network.calls.series
        explainer = make()
        seconds, _ = timed(lambda e=explainer: e.fit(series, progress=False), "cpu")  # type: ignore[misc]
        between = network.calls.series
        scores = truth_scores(explainer.explain(explained), None)
        calls = (network.calls.series - between) / len(explained)
        figures = (round(float(right.mean()), 3), way, method, round(float(np.nanmean(scores["auprc"])), 3))
        values = (name, arch, *figures, between - start, round(calls, 1), round(seconds, 1))
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def trained(arch: str, data: Dataset, epochs: int) -> Network:
    """The network after some epochs of Adam; the epoch with the least validation loss."""
    train, val = data.train.take(slice(0, N_TRAIN)), data.val
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(arch, train.shape[2], len(data.classes) or int(train.labels.max()) + 1)
        optimiser = torch.optim.AdamW(network.parameters(), 2e-3)
        x, y = torch.as_tensor(train.x), torch.as_tensor(train.labels)
        best, least = network.state_dict(), float("inf")
        for _ in range(epochs):
            for i in torch.randperm(len(x)).split(64):
                optimiser.zero_grad()
                nn.functional.cross_entropy(network(x[i]), y[i]).backward()
                optimiser.step()
            with torch.no_grad():
                loss = float(nn.functional.cross_entropy(network(torch.as_tensor(val.x)), torch.as_tensor(val.labels)))
            if loss < least:
                best, least = copy.deepcopy(network.state_dict()), loss
    network.load_state_dict(best)
    return network.eval()


if __name__ == "__main__":
    main()
