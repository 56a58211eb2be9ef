"""A convolutional student of a black box: fitted to its answers, it stands in where gradients and an embedding are needed.

Shapes: N, B samples, T time steps, D channels, C classes, R masked copies of a series, Z the width of the embedding.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from timex import engine
from timex.checks import warn_caller
from timex.engine import Noise, Tensors
from timex.io.folder import grouped
from timex.progress import training_bar
from timex.records import Series
from timex.reference.base import Output, ReferenceModel, built, initialised
from timex.reference.beside import beside
from timex.reference.blackbox import BlackBox

log = logging.getLogger(__name__)

COPIES = 4
"""Altered copies of every series whose answers the student learns beside those of the series."""
MOST = 4096
"""Largest number of series that a black box is called on, copies not counted."""
LEAST = 32
"""Smallest number of series, however long they are."""
MOST_CELLS = 2**27
"""Largest number of cells of these series and their copies: 512 MB. It lowers the number of long or wide series."""
PIECES = 8
"""A series is cut into about this many stretches per channel; a copy keeps a random share of them."""
STEPS = 1000
"""Approximate number of training steps."""
BATCH = 128
HELD_OUT = 0.1
FAITHFUL = 0.85
"""Share of held-out series on which a student should predict the black box's class (or the variance it should explain)."""


class Distilled(ReferenceModel):
    """A student with gradients and an embedding in front of the black box that it learned from.

    `output` is the student's; `answers` are the black box's own.
    """

    arch = "distilled"
    stackable = False
    mean: Tensor
    std: Tensor
    offset: Tensor
    scale: Tensor

    def __init__(self, black_box: BlackBox, student: ReferenceModel, units: Tensors) -> None:
        super().__init__()
        self.black_box, self.student = black_box, student
        self.numbers, self.config = black_box.numbers, student.config
        self.n_channels, self.n_classes, self.n_steps = student.n_channels, student.n_classes, student.n_steps
        self.embedding_size = student.embedding_size
        for name in ("mean", "std", "offset", "scale"):  # of the channels, and of the numbers
            self.register_buffer(name, units[name])

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """The student's embedding and logits; it sees the series in units of the training series."""
        scaled = (x - self.mean) / self.std
        return self.student.output(scaled if observed is None else scaled * observed, times, observed, mask, noise)

    def answers(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        """The black box's own answers, (B, C)."""
        return (self.black_box.answers(x, times, observed) - self.offset) / self.scale

    def in_own_units(self, logits: Tensor) -> Tensor:
        """Numbers as the black box gives them, (B, H)."""
        return logits * self.scale + self.offset

    @classmethod
    def restored(cls, black_box: BlackBox, config: Mapping[str, Any], tensors: Tensors) -> Distilled:
        """The student with saved weights."""
        arch = _architecture(config["n_steps"])[0]
        student = built(lambda: initialised(arch, config, seed=0), config, grouped(tensors, "student."))
        model = cls(black_box, student, {name: tensors[name] for name in ("mean", "std", "offset", "scale")})
        model.load_state_dict(tensors)
        return model.eval().requires_grad_(False)


class Imitation:
    """The engine's program: cross-entropy to the black box's probabilities, or squared error to its numbers."""

    stackable = True

    def __init__(self, student: ReferenceModel) -> None:
        self.student = student

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The loss on a batch."""
        return {"loss": self._loss(params, batch, noise)}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The loss on series and copies that were held out."""
        return {"criterion": self._loss(params, val, None)}

    def _loss(self, params: Tensors, batch: Tensors, noise: Noise | None) -> Tensor:
        logits = functional_call(self.student, params, (batch["x"],), {"noise": noise})
        if "number" in batch:
            return (logits - batch["number"]).square().mean()
        return -(batch["p"] * logits.log_softmax(-1)).sum(-1).mean()


def without_student(model: ReferenceModel) -> ReferenceModel:
    """The explained model itself: the black box if `model` is the student that stands in for it."""
    return model.black_box if isinstance(model, Distilled) else model


def distil(black_box: BlackBox, series: Series, *, seed: int = 0, device: Any = "cpu", progress: bool = True) -> Distilled:
    """Fit a student to a black box's answers for series and for copies of which random pieces are replaced.

    Args:
        black_box: The model that is imitated; it has been tried.
        series: Series like those it was trained on. At most 4,096 of them are used, fewer if they are long or wide.
        seed: Of the choice of series, the copies and the weights.
        device: Where the student is trained.
        progress: Whether to show a progress bar.
    """
    generator = torch.Generator().manual_seed(seed)
    most = min(MOST, max(LEAST, MOST_CELLS // ((1 + COPIES) * series.x[0].size)))
    chosen = series.take(torch.randperm(len(series), generator=generator)[:most].sort().values.numpy())
    tensors = chosen.tensors()
    x, seen = tensors["x"], tensors.get("observed")
    held = max(1, round(HELD_OUT * len(x)))
    views = torch.cat([x[:, None], altered_copies(x, COPIES, generator)], 1)  # (N, 1 + R, T, D)
    views = views if seen is None else views * seen[:, None]
    answers = _answers(black_box, views, tensors)  # (N, 1 + R, C)
    units = _units(x, answers[:, 0], black_box.numbers)
    goals = (answers - units["offset"]) / units["scale"] if black_box.numbers else answers.softmax(-1)
    scaled = (views - units["mean"]) / units["std"]
    order = torch.randperm(len(x), generator=generator)
    train, val = (_rows(scaled[i], goals[i], black_box.numbers) for i in (order[held:], order[:held]))
    _, t, d = x.shape
    arch, size = _architecture(t)
    student = initialised(arch, {"n_channels": d, "n_classes": answers.shape[-1], "n_steps": t, **size}, seed)
    params = {name: p.detach() for name, p in student.named_parameters()}
    member = engine.Member(params=params, frozen={}, train=train, val=val, lr=1e-3, weight_decay=0.01, seed=seed)
    steps = -(-len(train["x"]) // BATCH)
    schedule = engine.Schedule(epochs=max(2, round(STEPS / steps)), batch_size=BATCH, warmup=50, decay=True)
    with training_bar("student of the black box", progress) as on_epoch:
        (run,) = engine.train(Imitation(student), [member], schedule, device=device, on_epoch=on_epoch)
    student.load_state_dict(run.selected())
    model = Distilled(black_box, student.cpu(), units)
    model.eval().requires_grad_(False)
    _report(model, val, black_box)
    return model


def _answers(black_box: BlackBox, views: Tensor, tensors: Tensors) -> Tensor:
    """The answers (N, R, C) for copies of series (N, R, T, D), which keep times, observed cells and extras."""
    rows = {name: value.repeat_interleave(views.shape[1], 0) for name, value in tensors.items() if name != "x"}
    with beside(rows):
        return black_box.answers(views.flatten(0, 1), rows.get("times"), rows.get("observed")).unflatten(0, views.shape[:2])


def altered_copies(x: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Copies of series (N, T, D) that keep a random share of their pieces, (N, n, T, D).

    The other pieces hold the mean of the cell over all series in half of the copies, another series' values in the rest.
    """
    b, t, d = x.shape
    length = max(1, t // PIECES)
    share = torch.rand(b, n, 1, 1, generator=generator)
    kept = torch.rand(b, n, -(-t // length) + 1, d, generator=generator) < share
    start = torch.randint(length, (b, n, 1, 1), generator=generator)  # pieces begin anywhere
    piece = ((torch.arange(t)[:, None] + start) // length).expand(b, n, t, d)
    other = x[torch.randint(b, (b, n), generator=generator)]
    by_mean = torch.rand(b, n, 1, 1, generator=generator) < 0.5
    fill = torch.where(by_mean, x.mean(0), other)
    return torch.where(kept.gather(2, piece), x[:, None], fill)


def _architecture(n_steps: int) -> tuple[str, dict[str, int]]:
    """Name and size of the student for series of this length."""
    return ("cnn", {"width": 64}) if n_steps >= 8 else ("transformer", {})


def _units(x: Tensor, answers: Tensor, numbers: bool) -> Tensors:
    """Mean and deviation of the channels (D,), and of the answers (C,) if they are numbers."""
    std = x.std((0, 1)) if x[..., 0].numel() > 1 else torch.ones(x.shape[2])
    units = {"mean": x.mean((0, 1)), "std": torch.where(std > 0, std, 1.0)}
    if not numbers:
        return {**units, "offset": torch.zeros(1), "scale": torch.ones(1)}
    spread = answers.std(0, correction=0)
    return {**units, "offset": answers.mean(0), "scale": torch.where(spread > 0, spread, 1.0)}


def _rows(views: Tensor, goals: Tensor, numbers: bool) -> Tensors:
    return {"x": views.flatten(0, 1), "number" if numbers else "p": goals.flatten(0, 1)}


@torch.no_grad()
def _report(model: Distilled, val: Tensors, black_box: BlackBox) -> None:
    """Log how well the student imitates held-out series and copies; warn if it does not."""
    logits = model.student(val["x"])
    if black_box.numbers:
        goal = val["number"]
        share = float(1 - (logits - goal).square().mean() / goal.var(correction=0).clamp_min(1e-12))
        words = "explains %.0f %% of the variance of"
    else:
        share = float((logits.argmax(-1) == val["p"].argmax(-1)).float().mean())
        words = "agrees on %.0f %% of"
    log.info(
        f"a student {words} the black box's held-out answers; it was asked about %d series in %d calls",
        100 * share,
        black_box.asked,
        black_box.calls,
    )
    if share < FAITHFUL:
        warn_caller(
            f"The student that stands in for the black box {words % (100 * share)} its held-out answers: its explanations may "
            "not be those of the black box. Pass more series, or use occlusion or shapley_sampling, which need no student."
        )
