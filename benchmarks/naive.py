"""A plain training loop of TimeX, one fold, eager: the denominator of the engine's speed.

The same modules and the same equations as the engine trains (`method/objective.py`), written the way one would without it: a
shuffled index, the frozen model asked anew at every step, torch's own random numbers and AdamW, a Python float of the loss.

    python benchmarks/naive.py --data freqshapes --epochs 1 --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from timex import TimeX, TimeXConfig, load_dataset
from timex.engine import Program
from timex.method.config import PAPER
from timex.method.explainer import _series
from timex.method.objective import Objective
from timex.reference.base import ReferenceModel, initialised
from timex.reference.train import Classification, batch_tensors, preset


class TorchNoise:
    """The engine's `Noise`, drawn by torch."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on [0, 1)."""
        return torch.rand(shape, device=self.device)

    def keep(self, shape: tuple[int, ...], rate: float) -> Tensor:
        """False with probability `rate`."""
        return torch.rand(shape, device=self.device) >= rate


def untrained(name: str, seed: int = 0) -> ReferenceModel:
    """The paper's reference for a data set with fresh weights: a step costs the same as with trained ones."""
    data = load_dataset(name)
    shape = {"n_channels": data.train.x.shape[2], "n_classes": len(data.classes), "n_steps": data.train.x.shape[1]}
    return initialised("transformer", {**shape, **preset(name, "transformer").model}, seed).eval().requires_grad_(False)


def timex_step(name: str, config: TimeXConfig, device: torch.device, steps: int | None = None) -> float:
    """Milliseconds of a TimeX step."""
    data = load_dataset(name)
    explainer = TimeX(untrained(name), config=config, device=device)
    member = explainer._prepare(_series(data.train.x), None, _series(data.val.x), {})
    model, reference = explainer.model.to(device), explainer.reference.to(device)
    frozen, val = ({k: v.to(device) for k, v in part.items()} for part in (member.frozen, member.val))
    hyper = {k: torch.tensor(v, device=device) for k, v in member.hyper.items()}

    def batch_of(index: Tensor) -> dict[str, Tensor]:
        batch = {k: member.train[k][index].to(device) for k in ("x", "blank")}
        with torch.no_grad():
            out = reference.output(batch["x"])
        return {**batch, "z": out.z, "logits": out.logits}

    return time_loop(model, Objective(model, reference, config), batch_of, frozen, val, hyper, len(data.train), steps, device)


def reference_step(name: str, device: torch.device, steps: int | None = None) -> float:
    """Milliseconds of a step of the reference model."""
    data = load_dataset(name)
    model = untrained(name).to(device).requires_grad_(True)
    train, val = batch_tensors(data.train), {k: v.to(device) for k, v in batch_tensors(data.val).items()}

    def batch_of(index: Tensor) -> dict[str, Tensor]:
        return {k: v[index].to(device) for k, v in train.items()}

    return time_loop(model, Classification(model), batch_of, {}, val, {}, len(data.train), steps, device)


def time_loop(
    model: nn.Module,
    program: Program,
    batch_of: Callable[[Tensor], dict[str, Tensor]],
    frozen: dict[str, Tensor],
    val: dict[str, Tensor],
    hyper: dict[str, Tensor],
    n: int,
    steps: int | None,
    device: torch.device,
) -> float:
    """Milliseconds of a step at batch 64, averaged over `steps` (by default an epoch), with its share of the validation."""
    params, noise = dict(model.named_parameters()), TorchNoise(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    batches = torch.randperm(n).split(64)
    for done in (batches[:3], batches[:steps]):  # the first few warm up
        wait(device)
        started = time.perf_counter()
        for index in done:
            loss = program.loss(params, frozen, batch_of(index), hyper, noise)["loss"]
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            loss.item()
        wait(device)
        stepped = time.perf_counter()
        with torch.no_grad():
            program.criterion(params, frozen, val, hyper, noise)["criterion"].item()
        validated = time.perf_counter()
    return 1e3 * ((stepped - started) / len(done) + (validated - stepped) / len(batches))


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    parser.add_argument("--steps", type=int, help="steps timed; by default an epoch")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(arguments.device)
    for name in arguments.data:
        print(name, "reference", f"{reference_step(name, device, arguments.steps):.2f} ms a step")
        for kind, config in {"default": TimeXConfig(), "paper": PAPER[name]}.items():
            print(name, "timex", kind, f"{timex_step(name, config, device, arguments.steps):.2f} ms a step", flush=True)


if __name__ == "__main__":
    main()
