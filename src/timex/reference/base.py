"""What every reference model shares: z = G(x), logits = F(z), and saving without pickles.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from timex.engine import Noise
from timex.io.folder import read_folder, readable, write_folder

MOST = 10**9
"""Largest number of steps, channels, classes, layers or heads of a model."""


class Output(NamedTuple):
    """The output of a reference model for a batch: the embedding z (B, Z) and the logits (B, C)."""

    z: Tensor
    logits: Tensor


class ReferenceModel(nn.Module, ABC):
    """A model to explain, z = G(x) and logits = F(z). Subclasses write `output`; dropout is drawn from `noise` alone.

    Attributes:
        arch: The registry name.
        stackable: Whether `torch.vmap` can run several of them as one program.
        attention: Whether `output` accepts a multiplicative attention mask.
        uses_times: Whether `output` reads the times of the steps.
        gradients: Whether the answers can be differentiated; False for black boxes.
        numbers: Whether the "logits" are the numbers of a regression or forecast.
        config: The keyword arguments the model was built with.
    """

    arch: ClassVar[str]
    stackable: ClassVar[bool] = True
    attention: ClassVar[bool] = False
    uses_times: ClassVar[bool] = False
    gradients: ClassVar[bool] = True
    numbers: bool = False
    config: dict[str, Any]
    n_channels: int
    n_classes: int
    n_steps: int
    embedding_size: int

    @abstractmethod
    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Embedding and logits of one pass.

        Args:
            x: Series, (B, T, D).
            times: Times of the steps, (B, T); 1..T when None.
            observed: Measured cells, (B, T, D) bool; all when None.
            mask: Multiplicative attention mask over the steps, (B, T); only where `attention` is True.
            noise: Source of dropout; None evaluates.
        """

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

    def tried(
        self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None, *, scale_numbers: bool = False
    ) -> Self:
        """The model after a trial on a few series. Foreign models learn their sizes here; ours know them."""
        return self

    def answers(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        """The logits (B, C) of the model that is explained: those of `forward`, unless it stands for a black box."""
        return self(x, times, observed)

    def in_own_units(self, logits: Tensor) -> Tensor:
        """Numbers as the explained model gives them, (B, H)."""
        return logits


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
        if not isinstance(value, Tensor):  # get_extra_state may return any object
            continue
        digest.update(f"{name}:{tuple(value.shape)}:{value.dtype};".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_reference(model: ReferenceModel, folder: str | Path, **facts: Any) -> Path:
    """Write weights (safetensors) and a JSON description into `folder`; `facts` (scores, data set, seed) go along."""
    description = {"arch": model.arch, "config": model.config, "hash": weights_hash(model), **facts}
    return write_folder(Path(folder), "reference", description, model.state_dict())


def load_reference(folder: str | Path) -> ReferenceModel:
    """Read what `save_reference` wrote, in evaluation mode; nothing is unpickled."""
    folder = Path(folder)
    description, weights = read_folder(folder, "reference")
    with readable(folder, "reference"):
        arch, config = description["arch"], description["config"]
        model = built(lambda: build(arch, config), config, weights)
        model.load_state_dict(weights)
        return model.eval()


def built(make: Callable[[], ReferenceModel], config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ReferenceModel:
    """The model that `make` makes of saved settings, once it is known to have the sizes of the saved weights.

    Settings of a damaged folder can ask for any number of layers, and for any amount of memory.
    """
    odd = [name for name, v in config.items() if name.startswith("n_") and (type(v) is not int or not 1 <= v <= MOST)]
    if odd:
        raise ValueError(f"Expected {odd[0]} as a whole number from 1 to {MOST:,}, got {config[odd[0]]!r}.")
    deep = [name for name, v in config.items() if "layers" in name and v > len(weights)]
    if deep:
        raise ValueError(f"Expected {deep[0]} of at most the {len(weights)} saved tensors, got {config[deep[0]]!r}.")
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # no memory is taken
        expect_sizes(make(), weights)
    return make()


def expect_sizes(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Refuse saved weights that a module does not have, or that have other sizes."""
    sizes = {name: tuple(v.shape) for name, v in module.state_dict().items() if isinstance(v, Tensor)}
    saved = {name: tuple(v.shape) for name, v in weights.items()}
    odd = [name for name in {**sizes, **saved} if sizes.get(name) != saved.get(name)]
    if odd:
        raise ValueError(
            f"Expected weights of the sizes that the saved settings give, got {odd[0]} of size {saved.get(odd[0], 'none')} "
            f"for {sizes.get(odd[0], 'none')}: save it again."
        )
