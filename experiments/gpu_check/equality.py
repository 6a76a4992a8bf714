"""Several processes on GPUs get the same as all learners in one process, on the same card.

Started by the driver as python -m gossip.launch -n P --module experiments.gpu_check.equality.
"""

import csv
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import topologies
from experiments.bench.workload import Bench, study_of
from experiments.gpu_check.blocking import blocking
from experiments.gpu_check.cases import (
    IN_ROUNDS,
    MEANS,
    MIXES,
    SPLIT,
    STEPS,
    STREAMING,
    TOLERANCES,
    Case,
    cases,
)
from experiments.gpu_check.deviation import difference
from experiments.gpu_check.job import Job, left_out, main_across
from experiments.gpu_check.split import of_split
from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked
from gossip.config import Config, Model
from gossip.config.compute import Compute
from gossip.task.device import place

STAYS = 0.9
"""Share of a mixed row in the next one; the rest is new, or all rows would soon be equal."""
NEW_ROWS = 8
BATCH, WIDTH = 4, 16
SLEEPS, MOST_SECONDS = 0.1, 2e-3
"""Share of the steps before whose end a process sleeps, and how long at most."""


@dataclass(frozen=True, kw_only=True)
class Result(Case):
    """The largest difference of the two in one case."""

    backend: str
    device: str
    processes: int
    learners: int
    count: int
    """Number of mixes, or of steps."""
    difference: float
    """Largest |a - b| / (1 + |b|) over all of them; NaN where a number was."""
    tolerance: float
    holds: bool


def battery(job: Job, comm: Communicator) -> None:
    """Case after case, each written as soon as it is known, until the time is used up."""
    deadline = time.monotonic() + job.seconds
    graphs, names = job.device == "cuda", job.size.topologies
    todo = cases(comm.n, names, graphs=graphs, processes=comm.processes)
    for k, case in enumerate(todo):
        if any(comm.share(time.monotonic() > deadline)):
            left_out(comm, f"{len(todo) - k} of {len(todo)} equalities, for lack of time")
            return
        result = compared(job, comm, case)
        if comm.process == 0:
            append(result, job.file)


def compared(job: Job, comm: Communicator, case: Case) -> Result:
    """Whether a case holds, on all processes; collective."""
    largest = float(np.max(comm.share(OF_KIND[case.what](job, comm, case))))  # NaN if any is
    tolerance = TOLERANCES[case.dtype]
    return Result(
        **asdict(case),
        backend=job.backend,
        device=job.device,
        processes=comm.processes,
        learners=comm.processes // case.each if case.each else comm.n,
        count=job.size.mixes if case.what in (MIXES, MEANS) else job.size.steps,
        difference=largest,
        tolerance=tolerance,
        holds=largest <= tolerance,
    )


def of_mixes(job: Job, comm: Communicator, case: Case) -> float:
    """Largest difference of this process's rows over a chain of mixes, and of their averages.

    Between start and end of a mix the reference is computed and the process may sleep; of MEANS an
    average of the same rows is under way all the while. At the end the rows are overwritten, so
    whoever still reads them gets NaN.
    """
    topology = topologies.build(case.topology, comm.n)
    reference, device = Stacked(comm.n), place(job.device)
    own = slice(comm.hosted.start, comm.hosted.stop)
    new = rows(comm.n, job.size.d).to(device, getattr(torch, case.dtype))
    x, mine = new[0].clone(), new[0, own].clone()
    sleep, worst = sleeping(comm), new.new_zeros(())
    used = comm if case.overlap else blocking(comm)
    for t in range(job.size.mixes):
        average = used.start_mean(mine) if case.what == MEANS else None
        pending = used.start_mix(mine, topology.matrix(t))
        expected, x = reference.mean(x), reference.start_mix(x, topology.matrix(t))()
        sleep()
        mixed = pending()
        if average is not None:
            worst = torch.maximum(worst, difference(average(), expected))
        mine.fill_(torch.nan)
        worst = torch.maximum(worst, difference(mixed, x[own]))
        fresh = new[t % NEW_ROWS]
        x, mine = STAYS * x + fresh, STAYS * mixed + fresh[own]
    return worst.item()


def of_steps(job: Job, comm: Communicator, case: Case) -> float:
    """Largest difference of this process's weights along a trajectory."""
    mine = Bench(config_of(job, comm.n, case), comm if case.overlap else blocking(comm))
    whole = Bench(config_of(job, comm.n, replace(case, graphs=False)), Stacked(comm.n))
    shared = whole.algorithm.shared  # one row stands for all
    own = slice(0, 1) if shared else slice(comm.hosted.start, comm.hosted.stop)
    sleep, worst = sleeping(comm), whole.state.x.new_zeros(())
    for _ in range(job.size.steps):
        mine.step()
        whole.step()
        sleep()
        worst = torch.maximum(worst, difference(mine.state.x, whole.state.x[own]))
    return worst.item()


def config_of(job: Job, n: int, case: Case) -> Config:
    """A small MLP on random data."""
    config = study_of(
        n,
        BATCH,
        dataset="few",
        model=Model(widths=(WIDTH,), dtype=case.dtype),
        algorithm=case.algorithm,
        topology=case.topology,
    )
    order = "awc" if case.order == "-" else case.order
    compute = Compute(device=job.device, cuda_graphs="on" if case.graphs else "off")
    options = IN_ROUNDS if case.algorithm == STREAMING else ()
    gossip = replace(config.gossip, order=order, algorithm_options=options)
    return replace(config, gossip=gossip, compute=compute)


OF_KIND = {MIXES: of_mixes, MEANS: of_mixes, STEPS: of_steps, SPLIT: of_split}
"""What a case computes -> the function that does it in both ways."""


@cache
def rows(n: int, d: int) -> Tensor:
    """Random rows [NEW_ROWS, n, d], the same in every process."""
    return torch.from_numpy(np.random.default_rng(0).standard_normal((NEW_ROWS, n, d)))


def sleeping(comm: Communicator) -> Callable[[], None]:
    """A function that makes this process late now and then, each process at other times."""
    late = np.random.default_rng(comm.process)

    def sleep() -> None:
        if late.random() < SLEEPS:
            time.sleep(late.random() * MOST_SECONDS)

    return sleep


def append(result: Result, file: Path) -> None:
    """Add a row to the CSV file, with its header if it is new."""
    is_new, row = not file.exists(), asdict(result)
    with file.open("a", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    sys.exit(main_across(battery))
