"""Every setting of TimeX. What users set stands on top; what ablations and the paper's preset change is in groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from timex.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class EvidenceConfig(Settings):
    """The evidence objective: the kept cells must carry the frozen model's evidence, at a price per cell."""

    price_low: float = setting(
        0.015, "Lowest price: the share of the evidence that a sample pays to keep e times as many cells.", above=0, scalar=True
    )
    price_high: float = setting(
        0.4, "Highest price. p is an average over prices from the lowest to the highest.", above=0, scalar=True
    )
    free_cells: float = setting(
        10.0, "Number of kept cells below which the price of a further cell stops rising.", above=0, scalar=True
    )
    lam_hidden: float = setting(1.0, "Weight of the evidence left in the hidden cells.", least=0, scalar=True)
    lam_variation: float = setting(0.05, "Weight of the variation of p over time, per kept cell.", least=0, scalar=True)
    sampled: float = setting(
        0.5,
        "Share of the training samples that show the model a Bernoulli sample of the mask; the others show x blended with the "
        "fill by weight p.",
        least=0,
        most=1,
        scalar=True,
    )


@dataclass(frozen=True, kw_only=True)
class LossConfig(Settings):
    """The paper's objective: its terms and their weights. The evidence objective does not read them."""

    r: float = setting(
        0.5, "Prior probability that a cell is kept; lower for sparser explanations.", above=0, below=1, scalar=True
    )
    lam_lc: float = setting(1.0, "Weight of label consistency.", least=0, scalar=True)
    lam_e: float = setting(2.0, "Weight of the size and connectivity terms of the explanation.", least=0, scalar=True)
    lam_con: float = setting(2.0, "Weight of connectivity relative to size.", least=0, scalar=True)
    landmark_temperature: float = setting(1.0, "Temperature of the landmark assignment.", above=0, scalar=True)
    consistency: Literal["mbc", "mbc_normalised", "simclr", "none"] = setting(
        "mbc", "Loss between the embeddings of series and of their explanations."
    )
    label: Literal["instance", "pairwise", "batch", "none"] = setting(
        "batch",
        "Loss between the model's and the surrogate's predictions: per sample, over all pairs (the equation), or one batch "
        "mean (the published code; for forecasts the same as pairwise).",
    )
    divergence: Literal["js", "published"] = setting(
        "published",
        "Divergence of two predictions in the label term: Jensen-Shannon, or that of the published code (its KL terms the "
        "other way round, averaged over classes).",
    )
    connectivity: Literal["equation", "published", "published_batch"] = setting(
        "published",
        "Connectivity as the paper's equation has it, or as its published code computes it (far weaker); that code takes "
        "differences along the batch axis for several channels (published_batch), along time for one.",
    )
    reference_dropout: bool = setting(
        False, "Run the frozen model with its dropout on while fitting, as the published code does."
    )
    select: Literal["objective", "consistency"] = setting(
        "consistency", "What selects the best epoch on validation data: the whole objective, or (the paper) consistency alone."
    )


@dataclass(frozen=True, kw_only=True)
class MaskConfig(Settings):
    """How masks are drawn and how hidden cells are hidden."""

    sampling: Literal["straight_through", "soft"] = setting(
        "straight_through", "Discrete masks with a straight-through gradient, or continuous ones, in the paper's objective."
    )
    tau: float = setting(
        1.0, "Temperature of the relaxation behind the gradient of the mask, in the paper's objective.", above=0, scalar=True
    )
    hide: Literal["value", "attention", "both", "auto"] = setting(
        "value",
        "Replace the values of hidden cells, hide their steps from attention, or both; auto is the paper's choice by "
        "architecture.",
    )
    fill: Literal["auto", "mean", "draw", "shift"] = setting(
        "auto",
        "What replaces a hidden value: the cell's mean, a draw from the baseline distribution, or the value of the same "
        "channel at another time. auto takes mean or shift, whichever changes the model's answers less on validation data.",
    )


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(Settings):
    """The explanation generator: convolutions for the evidence objective, the paper's transformer for the paper's."""

    width: int = setting(32, "Width of the convolutional generator.", least=1, most=4096)
    gradient_points: int = setting(
        4,
        "Points of the path on which the model's gradient is taken as an input of the generator; 0 for none.",
        least=0,
        most=1000,
    )
    layers: int | None = setting(
        None, "Encoder layers of the transformer; None takes those of a reference transformer, else 2.", least=1, most=100
    )
    hidden: int | None = setting(
        None, "Feed-forward width of the transformer; None takes that of a reference transformer, else 64.", least=1, most=2**16
    )
    dropout: float = setting(0.1, "Dropout rate of the transformer.", least=0, below=1)
    residual: bool = setting(False, "Residuals around the transformer's self-attention; the paper's generator has none.")
    attention_dropout: bool = setting(True, "Dropout on the transformer's attention weights, as in the published code.")
    output: Literal["sigmoid", "softmax"] = setting(
        "softmax",
        "p of the transformer from one output and a sigmoid, or, for one channel, from two outputs and their softmax (the "
        "published code).",
    )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Settings):
    """How the weights are trained, beyond learning rate, epochs and batch size."""

    weight_decay: float = setting(1e-3, "Decoupled weight decay of AdamW.", least=0)
    patience: int | None = setting(
        None, "Stop after this many epochs without a better validation value; None trains to the end.", least=1
    )
    clip: float | None = setting(
        1.0, "Largest norm of a gradient; None for no clipping, as in effect in the published code.", above=0
    )
    scheduler: Literal["cosine", "plateau", "none"] = setting(
        "cosine",
        "Learning rate: a half cosine to zero, a tenth when validation stalls after epoch 20 (the paper), or constant.",
    )
    max_series: int | None = setting(8192, "Training series used at most, drawn at random; None uses all of them.", least=4)


@dataclass(frozen=True, kw_only=True)
class TimeXConfig(Settings):
    """Settings of TimeX. The defaults are meant for data and models that nothing was tuned for.

    Example:
        >>> TimeXConfig(epochs=5).replaced({"evidence.free_cells": 3.0}).evidence.free_cells
        3.0
        >>> TimeXConfig(lr=0)
        Traceback (most recent call last):
        ...
        ValueError: Expected lr > 0, got 0.
    """

    objective: Literal["evidence", "paper", "instance"] = setting(
        "evidence",
        "What the generator learns from: the evidence of the frozen model itself, the paper's consistency of a surrogate "
        "trained beside it, or (TimeXPlus) TimeX++'s consistency of the frozen model on a series made from the kept cells.",
    )
    task: Literal["classify", "forecast"] = setting(
        "classify", "What the model's outputs are: logits of classes, or the values of a forecast."
    )
    epochs: int | None = setting(
        None, "Passes over the training series; None takes as many as give about 300 steps.", least=1, most=10**6
    )
    lr: float = setting(3e-3, "Learning rate of AdamW.", above=0)
    batch_size: int = setting(
        64, "Samples in a step; the consistency losses compare all pairs of a batch.", least=2, most=2**20
    )
    smoothing: int | None = setting(
        None,
        "Explanations are smoothed over time by a Gaussian with this standard deviation in steps; 0 for none. None lets the "
        "model choose on validation data: the width with the largest gap of evidence, or a wider one that is nearly as good.",
        least=0,
        most=10**5,
    )
    n_landmarks: int = setting(50, "Number of landmarks.", least=1, most=10**5)
    seed: int = setting(0, "Seed of weights, masks, data order and dropout.", least=0, most=2**32 - 1)
    evidence: EvidenceConfig = field(default_factory=EvidenceConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective == "instance" and not hasattr(self, "instance"):
            raise ValueError("Expected a PlusConfig with objective='instance': use timex.method.TimeXPlus.")
        if self.loss.consistency == "none" and self.loss.label == "none":
            raise ValueError("Expected a consistency or a label term, got neither: nothing would tie the masks to the model.")
        if self.evidence.price_low > self.evidence.price_high:
            raise ValueError(f"Expected price_low <= price_high, got {self.evidence.price_low} and {self.evidence.price_high}.")

    @property
    def forecasts(self) -> bool:
        """Whether the model's outputs are forecast values, and not the logits of classes."""
        return self.task == "forecast"

    @classmethod
    def paper(cls, dataset: str, arch: str = "transformer") -> TimeXConfig:
        """The paper's own settings for one of its data sets and architectures.

        >>> TimeXConfig.paper("freqshapes").loss.r
        0.5
        """
        from timex.method.presets import paper_config

        return paper_config(dataset, arch)

    def scalars(self) -> dict[str, float]:
        """The numbers that stacked trainings may differ in, by the last part of their names."""
        return {row.name.rpartition(".")[2]: self.get(row.name) for row in self.rows() if row.scalar}
