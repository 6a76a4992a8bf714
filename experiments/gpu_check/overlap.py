"""The share of a step's exchange that hides behind its gradient is measured on a ring."""

import sys
from collections.abc import Iterator
from dataclasses import replace

from experiments.bench import rows as table
from experiments.bench.exchange import in_place
from experiments.bench.measure import Meeting, hidden_fraction, interleaved
from experiments.bench.overlap import COMPUTE, EXCHANGE
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.workload import Bench, study_of
from experiments.gpu_check.blocking import blocking
from experiments.gpu_check.job import Job, main_across
from experiments.gpu_check.size import Widths
from experiments.gpu_check.timing import meeting_on, timed
from gossip.comm.base import Communicator
from gossip.config import Model
from gossip.config.compute import Compute

STEP, IN_TURN = "step", "step without overlap"


def measure(job: Job, comm: Communicator) -> None:
    """Measure all rows; each case is written as it comes."""
    for found in rows(job, comm):
        if comm.process == 0:
            table.append(found, job.file)


def rows(job: Job, comm: Communicator) -> Iterator[list[Row]]:
    """A case for each model."""
    for widths, batch in job.size.overlap_models:
        yield _case(job, comm, widths, batch)


def _case(job: Job, comm: Communicator, widths: Widths, batch: int) -> list[Row]:
    config = study_of(comm.n, batch, dataset="few", model=Model(widths=widths))
    config = replace(config, compute=Compute(device=job.device))
    bench, in_turn = Bench(config, comm), Bench(config, blocking(comm))
    device = bench.study.task.numerics.device
    steps = {
        COMPUTE: bench.compute,
        EXCHANGE: in_place(comm, bench.study.topology, bench.state.x),
        STEP: bench.step,
        IN_TURN: in_turn.step,
    }
    works = {name: timed(step, device) for name, step in steps.items()}
    meeting: Meeting = meeting_on(comm, device)
    times = interleaved(works, job.size.rounds, meeting, job.size.block_ms)
    case = Case(
        table="overlap",
        case=f"ring, {bench.study.task.d:,} parameters, {comm.processes} processes on {device}",
        processes=comm.processes,
        learners=comm.n,
        d=bench.study.task.d,
        batch=batch,
    )
    compute, exchange, *both = rows_of(case, times, COMPUTE)
    alone = compute.wall_ms, exchange.wall_ms
    hidden = [replace(row, hidden=hidden_fraction(*alone, row.wall_ms)) for row in both]
    return [compute, exchange, *hidden]


if __name__ == "__main__":
    sys.exit(main_across(measure))
