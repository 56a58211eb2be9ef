"""Explaining on Ray: the chunks of a source are spread over the actors of a cluster by Ray Data.

Every actor writes the parts of its chunks itself. So the folder of the parts and the files of the source must lie on a disk
that all nodes see. A part is written beside and renamed. Ray repeats the chunks of an actor that died, and chunks whose part is
there are left out: no row is lost or doubled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from timex.scale.job import Job

BLOCKS = 4
"""Blocks of chunks for each actor: a dead actor loses the work of one."""


class Worker:
    """An actor: it opens the explainer once, and explains the chunks it is sent.

    Args:
        job: What to do.
        folder: Where the user's modules are found beside the installed ones.
        threads: CPU threads.
    """

    def __init__(self, job: Job, folder: str, threads: int) -> None:
        import torch

        if folder not in sys.path:
            sys.path.insert(0, folder)
        torch.set_num_threads(threads)
        self.job, self.explainer = job, job.open()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The numbers of samples in the chunks of a batch, after their parts were written."""
        assert self.job.parts is not None  # the function below refuses a job without them
        done = set(self.job.parts.done)
        chunks = [self.job.source.chunks[number] for number in batch["number"]]
        for _ in self.job.explain(self.explainer, [chunk for chunk in chunks if chunk.number not in done]):
            pass
        return {"samples": [chunk.samples for chunk in chunks]}


def explain_on_ray(
    job: Job, address: str | None = None, actors: int | None = None, progress: Callable[[int], None] | None = None
) -> None:
    """Write the parts of a job that are missing.

    Args:
        job: What to do; its source and parts must be reachable from all nodes.
        address: Address of a Ray cluster; by default a local one is started, and ended afterwards.
        actors: Largest number of actors; by default one for each GPU of the cluster, or for each CPU if it has none.
        progress: Called with the number of samples done so far.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError("--engine ray needs Ray, which is not installed: pip install 'timex-explain[ray]'.") from None
    if job.parts is None:
        raise ValueError("Expected --out as a .parquet or .csv file or a folder with --engine ray: actors write parts.")
    done = set(job.parts.done)
    left = [chunk for chunk in job.source.chunks if chunk.number not in done]
    if not left:
        return
    ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        most = min(len(left), actors or gpus or max(1, int(resources.get("CPU", 1))))
        numbers = ray.data.from_items(
            [{"number": chunk.number} for chunk in left], override_num_blocks=min(len(left), BLOCKS * most)
        )
        counts = numbers.map_batches(
            Worker,
            fn_constructor_args=(job, os.getcwd(), 1),
            batch_size=None,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
            num_cpus=None if gpus else 1,
            num_gpus=1 if gpus else None,
        )
        total = 0
        for row in counts.iter_rows():
            total += int(row["samples"])
            if progress is not None:
                progress(total)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    finally:
        ray.shutdown()
