"""What every reference model shares: z = G(x), logits = F(z), and saving without pickles.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from timex.engine import Noise
from timex.types import Output, atomic_path


class ReferenceModel(nn.Module):
    """An encoder G and a predictor F. Subclasses write `encode`; randomness (dropout) is passed in as `noise`, never drawn.

    Attributes:
        arch: The registry name.
        stackable: Whether `torch.vmap` can run several of them as one program.
        attention: Whether `encode` accepts a multiplicative attention mask.
        config: The keyword arguments the model was built with.
    """

    arch: ClassVar[str]
    stackable: ClassVar[bool] = True
    attention: ClassVar[bool] = False
    config: dict[str, Any]
    n_channels: int
    n_classes: int
    n_steps: int
    embedding_size: int
    head: nn.Module

    def encode(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """G: embed the series.

        Args:
            x: Series, (B, T, D).
            times: Times of the steps, (B, T); 1..T when None.
            observed: Measured cells, (B, T, D) bool; all when None.
            mask: Multiplicative attention mask over the steps, (B, T); only where `attention` is True.
            noise: Source of dropout; None evaluates.

        Returns:
            The embedding z, (B, Z).
        """
        raise NotImplementedError(f"{type(self).__name__} must define encode")

    def predict(self, z: Tensor) -> Tensor:
        """F: logits (B, C) of embeddings (B, Z)."""
        return self.head(z)

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Embedding and logits of one pass."""
        z = self.encode(x, times, observed, mask, noise)
        return Output(z, self.predict(z))

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Logits, (B, C)."""
        return self.output(x, times, observed, mask, noise).logits


def mlp_head(width: int, n_classes: int) -> nn.Sequential:
    """The predictor of every reference model: Linear, ReLU, Linear."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_classes))


def observed_steps(observed: Tensor | None) -> Tensor | None:
    """Steps with at least one measured cell, (B, T) bool, or None for all."""
    return None if observed is None else observed.any(dim=-1)


def mean_over_time(h: Tensor, steps: Tensor | None) -> Tensor:
    """Mean of (B, T, H) over the measured steps, (B, H); a sample with none gives zeros."""
    if steps is None:
        return h.mean(dim=1)
    weight = steps.to(h.dtype)[..., None]  # (B, T, 1)
    return (h * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)


def build(arch: str, config: Mapping[str, Any]) -> ReferenceModel:
    """A fresh model of a registered architecture."""
    from timex.reference import REFERENCES
    from timex.reference.forecaster import Forecaster

    if arch == Forecaster.arch:  # which is no classifier, so not in the registry of these
        return Forecaster(**config)
    if arch not in REFERENCES:
        raise ValueError(f"Unknown architecture {arch!r}; known: {', '.join(REFERENCES)}.")
    return REFERENCES[arch](**config)


def initialised(arch: str, config: Mapping[str, Any], seed: int) -> ReferenceModel:
    """A fresh model whose weights depend on `seed` alone; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which reseeds GPUs too
        return build(arch, config)


def weights_hash(module: nn.Module) -> str:
    """A fingerprint of a module's parameters and buffers: names, shapes and bytes."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if not isinstance(value, Tensor):  # what get_extra_state returns may be anything
            continue
        digest.update(f"{name}:{tuple(value.shape)}:{value.dtype};".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_reference(model: ReferenceModel, folder: str | Path, **facts: Any) -> Path:
    """Write weights (safetensors) and a JSON description into `folder`; `facts` (scores, data set, seed) go along."""
    folder = Path(folder)
    with atomic_path(folder / "model.safetensors") as beside:
        save_file({name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}, beside)
    description = {"format": 1, "arch": model.arch, "config": model.config, "hash": weights_hash(model), **facts}
    with atomic_path(folder / "reference.json") as beside:
        beside.write_text(json.dumps(description, indent=2) + "\n")
    return folder


def load_reference(folder: str | Path) -> ReferenceModel:
    """Read what `save_reference` wrote, in evaluation mode; nothing is unpickled."""
    folder = Path(folder)
    for name in ("reference.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} holds no reference model: {name} is missing. `timex train` writes one.")
    description = json.loads((folder / "reference.json").read_text())
    model = build(description["arch"], description["config"])
    model.load_state_dict(load_file(folder / "model.safetensors"))
    if weights_hash(model) != description["hash"]:
        raise ValueError(f"{folder}: model.safetensors does not belong to reference.json (hashes differ): save it again.")
    return model.eval()
