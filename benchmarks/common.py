"""What the scripts share: arguments, results as JSON, models and clocks."""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from timex import load_dataset
from timex.bench.recipes import shrunk
from timex.io.atomic import atomic_path
from timex.records import Dataset
from timex.reference.base import ReferenceModel, initialised
from timex.reference.train import preset, shape_of

Rows = list[dict[str, Any]]


def parser(text: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every script; `text` is the script's docstring."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    made.add_argument("--threads", type=int, default=1, help="CPU threads")
    made.add_argument("--out", type=Path, help="write the JSON to this file")
    made.add_argument("--smoke", action="store_true", help="small numbers, to see that it runs")
    return made


def write(content: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write results with the facts of the machine; print them without `--out`."""
    gpu = arguments.device.startswith("cuda")
    facts = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if gpu else "cpu"}
    text = json.dumps({**facts, "threads": torch.get_num_threads(), **content}, indent=1)
    if arguments.out is None:
        print(text)
        return
    with atomic_path(arguments.out) as beside:
        beside.write_text(text + "\n")


def data_of(name: str, fold: int = 0, *, smoke: bool = False) -> Dataset:
    """A data set; a few samples of it for a smoke run."""
    data = load_dataset(name, fold)
    return shrunk(data) if smoke else data


def untrained(data: Dataset, arch: str = "transformer", seed: int = 0) -> ReferenceModel:
    """The paper's model for a data set with fresh weights: a step takes as long as with trained ones."""
    config = {**shape_of(data, arch), **preset(data.name, arch).model}
    return initialised(arch, config, seed).eval().requires_grad_(False)


def timed(function: Callable[[], Any], device: torch.device | str) -> tuple[float, Any]:
    """Seconds and result; on a CPU the seconds of this process alone, so that other load on the machine does not count."""
    clock = time.perf_counter if torch.device(device).type == "cuda" else time.process_time
    wait(device)
    started = clock()
    out = function()
    wait(device)
    return clock() - started, out


def peak_megabytes(device: torch.device | str) -> int:
    """The most memory held so far: on the GPU by torch, else by this process."""
    if torch.device(device).type == "cuda":
        return round(torch.cuda.max_memory_allocated() / 2**20)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)  # Linux counts in kilobytes


def wait(device: torch.device | str) -> None:
    """Until the device has finished its work."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
