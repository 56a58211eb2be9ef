"""A plain training loop of TimeX, one fold, eager: the denominator of the engine's speed.

The same modules and equations as the engine trains (`timex.method.evidence` and `objective`), written as one would without the
engine: a shuffled index, the frozen model and its gradients computed again at every step, torch's own random numbers and AdamW,
a Python float of the loss.

    python benchmarks/naive.py --data freqshapes --device cuda
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from common import data_of, parser, untrained, wait, write
from torch import Tensor, nn

from timex import TimeX, TimeXConfig
from timex.engine import Noise, Program, Tensors
from timex.method.explain import generator_inputs
from timex.method.fit import objective_of
from timex.method.task import prepare
from timex.records import Dataset
from timex.reference.train import Classification

BATCH = 64
WARM_UP = 3
"""Steps before the clock starts."""


class TorchNoise(Noise):
    """The engine's `Noise`, drawn by torch."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on [0, 1)."""
        return torch.rand(shape, device=self.device)

    def keep(self, shape: Sequence[int], rate: float) -> Tensor:
        """False with probability `rate`."""
        return torch.rand(tuple(shape), device=self.device) >= rate


def timex_step(data: Dataset, config: TimeXConfig, device: torch.device, steps: int | None = None) -> float:
    """Milliseconds of a TimeX step; by our objective, of the generator."""
    task = prepare(TimeX(untrained(data), config=config, device=device), data.train, data.val)
    program, reference = objective_of(task), task.reference.to(device)
    frozen, val = (on(device, part) for part in (task.member.frozen, task.member.val))
    hyper = {k: torch.tensor(v, device=device) for k, v in task.member.hyper.items()}

    trained = task.model.generator if config.objective == "evidence" else task.model

    def batch_of(index: Tensor) -> Tensors:
        batch = {k: task.member.train[k][index].to(device) for k in ("x", "blank")}
        with torch.no_grad():
            out = reference.output(batch["x"])
            inputs = generator_inputs(task, batch["x"], None, None) if config.objective == "evidence" else {}
        return {**batch, "z": out.z, "logits": out.logits, **inputs}

    return time_loop(trained, program, batch_of, frozen, val, hyper, len(data.train), steps, device)


def reference_step(data: Dataset, device: torch.device, steps: int | None = None) -> float:
    """Milliseconds of a step of the reference model."""
    model = untrained(data).to(device).requires_grad_(True)
    train, val = data.train.tensors(device), data.val.tensors(device)

    def batch_of(index: Tensor) -> Tensors:
        return {k: v[index] for k, v in train.items()}

    return time_loop(model, Classification(model), batch_of, {}, val, {}, len(data.train), steps, device)


def time_loop(
    model: nn.Module,
    program: Program,
    batch_of: Callable[[Tensor], Tensors],
    frozen: Tensors,
    val: Tensors,
    hyper: Tensors,
    n: int,
    steps: int | None,
    device: torch.device,
) -> float:
    """Milliseconds of a step, averaged over `steps` (by default an epoch), with its share of the validation."""
    params: Tensors = {**dict(model.named_parameters())}
    noise = TorchNoise(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    batches = torch.randperm(n, device=device).split(BATCH)
    for done in (batches[:WARM_UP], batches[:steps]):
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


def on(device: torch.device, tensors: Tensors) -> Tensors:
    """The tensors on a device."""
    return {name: value.to(device) for name, value in tensors.items()}


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    options.add_argument("--steps", type=int, help="steps timed; by default an epoch")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    rows = []
    for name in arguments.data:
        data = data_of(name, smoke=arguments.smoke)
        rows.append({"data": name, "what": "reference", "ms_per_step": reference_step(data, device, arguments.steps)})
        for what, config in {"timex": TimeXConfig(), "timex, paper's objective": TimeXConfig.paper(name)}.items():
            rows.append({"data": name, "what": what, "ms_per_step": timex_step(data, config, device, arguments.steps)})
    write({"rows": rows}, arguments)


if __name__ == "__main__":
    main()
