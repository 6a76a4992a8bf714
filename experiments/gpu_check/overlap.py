"""The share of an exchange that hides behind a gradient is measured: a ring's, and an average's."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from torch import Tensor

from experiments.bench import rows as table
from experiments.bench.exchange import in_place
from experiments.bench.measure import Meeting, hidden_fraction, interleaved
from experiments.bench.overlap import COMPUTE, EXCHANGE
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.workload import Bench, study_of
from experiments.gpu_check.blocking import blocking
from experiments.gpu_check.job import Job, main_across
from experiments.gpu_check.timing import meeting_on, timed
from gossip.comm.base import Communicator
from gossip.config import Model
from gossip.config.compute import Compute

STEP, IN_TURN = "step", "step without overlap"
Steps = dict[str, Callable[[], object]]
BEHIND, AFTER = "gradient behind an average", "gradient after an average"


def measure(job: Job, comm: Communicator) -> None:
    """Measure all rows; each case is written as it comes."""
    for found in rows(job, comm):
        if comm.process == 0:
            table.append(found, job.file)


def rows(job: Job, comm: Communicator) -> Iterator[list[Row]]:
    """For each model a step on a ring, and an average over all, as of Streaming DiLoCo."""
    for widths, batch in job.size.overlap_models:
        config = study_of(comm.n, batch, dataset="few", model=Model(widths=widths))
        config = replace(config, compute=Compute(device=job.device))
        bench, in_turn = Bench(config, comm), Bench(config, blocking(comm))
        on_a_ring: Steps = {
            COMPUTE: bench.compute,
            EXCHANGE: in_place(comm, bench.study.topology, bench.state.x),
            STEP: bench.step,
            IN_TURN: in_turn.step,
        }
        yield _case(job, bench, batch, "ring", on_a_ring)
        averaging: Steps = {
            COMPUTE: bench.compute,
            EXCHANGE: partial(comm.mean, bench.state.x),
            BEHIND: _behind(bench, comm),
            AFTER: _behind(bench, blocking(comm)),
        }
        yield _case(job, bench, batch, "an average", averaging)


def _behind(bench: Bench, comm: Communicator) -> Callable[[], Tensor]:
    """A gradient while an average is under way; its rows are not those that change."""
    rows = bench.state.x.clone()

    def step() -> Tensor:
        pending = comm.start_mean(rows)
        bench.compute()
        return pending()

    return step


def _case(job: Job, bench: Bench, batch: int, what: str, steps: Steps) -> list[Row]:
    comm, device, d = bench.comm, bench.study.task.numerics.device, bench.study.task.d
    works = {name: timed(step, device) for name, step in steps.items()}
    meeting: Meeting = meeting_on(comm, device)
    times = interleaved(works, job.size.rounds, meeting, job.size.block_ms)
    case = Case(
        table="overlap",
        case=f"{what}, {d:,} parameters, {comm.processes} processes on {device}",
        processes=comm.processes,
        learners=comm.n,
        d=d,
        batch=batch,
    )
    compute, exchange, *both = rows_of(case, times, COMPUTE)
    alone = compute.wall_ms, exchange.wall_ms
    hidden = [replace(row, hidden=hidden_fraction(*alone, row.wall_ms)) for row in both]
    return [compute, exchange, *hidden]


if __name__ == "__main__":
    sys.exit(main_across(measure))
