"""All learners in one process are timed against one torch model with all samples."""

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from experiments.bench import rows as table
from experiments.bench.measure import interleaved
from experiments.bench.rows import NAN, Case, Row, rows_of
from experiments.bench.stacked import ONE_MODEL, STACKED
from experiments.gpu_check.job import Job, main
from experiments.gpu_check.timing import meeting_on, settle, timed
from experiments.gpu_check.training import MLP, Net, resnet
from gossip.comm.stacked import Stacked
from gossip.config.compute import Compute
from gossip.task.device import place

Step = Callable[[], None]
STEPS = 3
"""Number of steps in which the peak of memory use shows."""


def measure(job: Job) -> None:
    """Measure all rows; each case is written as it comes."""
    for found in rows(job):
        table.append(found, job.file)


def rows(job: Job) -> Iterator[list[Row]]:
    """A case for each number of MLPs, and one of ResNets."""
    size = job.size
    for n in size.stacks:
        yield _case(job, MLP, n, size.mlp_batch)
    yield _case(job, resnet(size.resnet_options), size.resnet_learners, size.resnet_batch)


def peak_mib(make: Callable[[], Step], device: torch.device) -> float:
    """Peak memory allocated on a GPU, from nothing to the end of some steps; NaN on a CPU."""
    if device.type != "cuda":
        return NAN
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step = make()
    for _ in range(STEPS):
        step()
    settle(device)
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20


def _case(job: Job, net: Net, n: int, batch: int) -> list[Row]:
    compute, device = Compute(device=job.device), place(job.device)
    sides: dict[str, Callable[[], Step]] = {
        ONE_MODEL: partial(net.plain, n * batch, compute),
        STACKED: partial(net.stacked, n, batch, compute),
    }
    peaks = [peak_mib(make, device) for make in sides.values()]
    works = {name: timed(make(), device) for name, make in sides.items()}
    times = interleaved(works, job.size.rounds, meeting_on(Stacked(1), device), job.size.block_ms)
    case = Case(
        table="stacked", case=f"{net.model}, n={n} B={batch}, ring", learners=n, batch=batch
    )
    found = rows_of(case, times, ONE_MODEL)
    return [replace(row, peak_mib=peak) for row, peak in zip(found, peaks, strict=True)]


if __name__ == "__main__":
    sys.exit(main(measure))
