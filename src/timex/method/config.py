"""Everything that can be set about TimeX, and the paper's own settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True)
class TimeXConfig:
    """Settings of TimeX. The defaults are meant for data sets and models nobody has tuned for."""

    r: float = 0.15
    """Prior probability that a cell is kept; lower for sparser explanations."""
    tau: float = 1.0
    """Temperature of the relaxation behind the mask's gradient."""
    lam_lc: float = 1.0
    """Weight of label consistency."""
    lam_model: float = 1.0
    """Weight of the frozen model's own predictions on the masked series; 0 leaves all judgement to the surrogate."""
    lam_hidden: float = 1.0
    """Weight, within that, of what the cells left out still tell the model."""
    judged: Literal["auto", "draw", "strength"] = "auto"
    """How the frozen model is shown the kept cells: those of a draw from p, or every cell at the strength p. auto draws, and
    fits again at the strength p where the explanations cannot be trusted: some models make nothing of a series with holes."""
    lam_e: float = 1.0
    """Weight of the explanation's own terms: sparsity and connectivity."""
    lam_con: float = 2.0
    """Weight of connectivity within them."""
    resolution: int | None = None
    """Steps over which p is averaged, the standard deviation of a Gaussian; 1 for no averaging. None takes as many as the
    signal itself does not tell apart, which is 1 unless it is sampled finely."""
    mask: Literal["straight_through", "soft"] = "straight_through"
    """Discrete masks with a straight-through gradient, or continuous ones (ablation)."""
    shown: float = 0.25
    """Share of training samples masked by p > .5, the mask a user is shown, rather than by a draw from p."""
    masking: Literal["value", "attention", "both", "auto"] = "value"
    """Replace the values of hidden cells, hide them from attention, or both; auto is the paper's choice by architecture."""
    fill: Literal["mean", "draw"] = "mean"
    """What replaces a hidden value while training: the mean of its cell, or a draw from the baseline distribution."""
    consistency: Literal["mbc", "mbc_normalised", "simclr", "none"] = "mbc"
    """How embeddings of explanations are held to those of the model."""
    label: Literal["instance", "pairwise", "batch", "mse", "mse_pairwise", "none"] = "instance"
    """How predictions from explanations are held to those of the model: sample by sample, all pairs, or one batch mean; the
    mse forms are for models that forecast instead of classify."""
    connectivity: Literal["equation", "published"] = "published"
    """Connectivity as the paper writes it, or as its published code computes it (a far weaker term)."""
    select: Literal["objective", "consistency"] = "objective"
    """What selects the best epoch on validation data: everything that is minimised, or (the paper) the consistency terms."""
    encoder_init: Literal["reference", "scratch"] = "reference"
    """Where the surrogate's encoder starts: the model's weights, or fresh ones."""
    generator_layers: int | None = None
    """Encoder layers of the generator; None takes the reference transformer's, else 2."""
    generator_hidden: int | None = None
    """Feed-forward width of the generator's encoder; None takes the reference transformer's, else 64."""
    generator_filters: int = 16
    """Filters of a convolutional stem of the generator, for signals that are a matter of neighbouring steps; 0 for none."""
    generator_dropout: float = 0.1
    """Dropout in the generator."""
    n_landmarks: int = 50
    """Landmarks to learn."""
    landmark_spread: float = 1.0
    """How much less similar than the nearest, in cosine, a landmark may be and still be matched at times."""
    lr: float = 2e-3
    """Learning rate of AdamW."""
    weight_decay: float = 1e-3
    """Decoupled weight decay."""
    epochs: int = 30
    """Ceiling on the number of epochs."""
    batch_size: int = 64
    """Samples in a step; the consistency losses compare all pairs of a batch."""
    patience: int | None = None
    """Stop after this many epochs without a better validation value; None trains to the ceiling."""
    scheduler: Literal["cosine", "plateau", "none"] = "cosine"
    """Learning rate: a half cosine to zero, a cut by ten when validation stalls after epoch 20 (the paper), or constant."""
    warmup: int = 0
    """Steps over which the learning rate rises from zero."""
    seed: int = 0
    """Seed of weights, masks, data order and dropout."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                raise ValueError(f"Expected {name} among {', '.join(get_args(hint))}, got {getattr(self, name)!r}.")
        if not 0 <= self.shown <= 1:
            raise ValueError(f"Expected shown between 0 and 1, got {self.shown}.")
        if not 0 < self.r < 1:
            raise ValueError(f"Expected r strictly between 0 and 1, got {self.r}.")
        for name in ("tau", "landmark_spread", "lr"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Expected {name} > 0, got {getattr(self, name)}.")
        for name in ("lam_lc", "lam_model", "lam_hidden", "lam_e", "lam_con", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"Expected {name} >= 0, got {getattr(self, name)}.")
        if not 0 <= self.generator_dropout < 1:
            raise ValueError(f"Expected generator_dropout of at least 0 and below 1, got {self.generator_dropout}.")
        if self.n_landmarks < 1:
            raise ValueError(f"Expected at least one landmark, got {self.n_landmarks}.")
        least = {
            "generator_layers": 1,
            "generator_hidden": 1,
            "generator_filters": 0,
            "epochs": 1,
            "patience": 1,
            "warmup": 0,
            "resolution": 1,
        }
        for name, bound in {**least, "batch_size": 2}.items():  # the losses compare pairs
            if getattr(self, name) is not None and getattr(self, name) < bound:
                raise ValueError(f"Expected {name} >= {bound}, got {getattr(self, name)}.")
        if self.consistency == "none" and self.label == "none":
            raise ValueError("Expected a consistency or a label term, got neither: nothing would tie the masks to the model.")

    @property
    def forecasts(self) -> bool:
        """Whether the model's outputs are numbers to come, and not the logits of classes."""
        return self.label in ("mse", "mse_pairwise")


_PAPER = TimeXConfig(
    r=0.5,
    resolution=1,
    lam_model=0.0,
    lam_e=2.0,
    connectivity="equation",
    shown=0.0,
    masking="auto",
    fill="draw",
    label="pairwise",
    select="consistency",
    generator_filters=0,
    lr=1e-3,
    scheduler="plateau",
    epochs=50,
)

PAPER: dict[str, TimeXConfig] = {
    "freqshapes": _PAPER,
    "seqcomb_uv": _PAPER,
    "seqcomb_mv": replace(_PAPER, epochs=100, scheduler="none"),
    "lowvar": replace(_PAPER, lr=3e-3, weight_decay=1e-4, epochs=100, scheduler="none", consistency="mbc_normalised"),
}
"""The paper's tables of TimeX hyperparameters, for running its experiments as written."""
