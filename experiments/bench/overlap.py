"""The share of the exchange that hides behind the gradient is measured."""

import gc
from collections.abc import Iterator
from dataclasses import replace

from experiments.bench.exchange import in_place
from experiments.bench.measure import Meeting, Work, hidden_fraction, interleaved
from experiments.bench.rows import Case, Label, Row, rows_of
from experiments.bench.size import Size, spare_cores
from experiments.bench.training import BATCH, config_of
from experiments.bench.variants import TOPOLOGIES, Setting

COMPUTE, EXCHANGE, STEP = "gradient and update alone", "exchange alone", "step"


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each model and topology; all of it is the harness's own code."""
    comm = meeting.comm
    spare = spare_cores(comm.processes)
    if not spare:
        meeting.say(
            f"overlap: no core is spare with {comm.processes} processes: whatever moves the bytes "
            "takes the time of a core that computes, and nothing but waiting can be hidden"
        )
    for widths in size.models[comm.processes]:
        setting = Setting.of(config_of(comm.n, widths), comm)
        for topology in TOPOLOGIES:
            yield _case(size, meeting, setting, topology, spare)


def _case(size: Size, meeting: Meeting, setting: Setting, topology: str, spare: int) -> list[Row]:
    n, d = setting.comm.n, len(setting.learner.start)
    from gossip.comm.transports.mpi import Mpi

    case = Case(
        table="overlap",
        case=f"{topology}, {d:,} parameters, {n} processes, {spare} spare cores",
        processes=n,
        learners=n,
        d=d,
        batch=BATCH,
    )
    gc.collect()  # the communicator of the case before, and its memory
    bench = setting.bench(topology)
    works = {
        COMPUTE: Work(bench.compute),
        EXCHANGE: Work(in_place(Mpi(n), bench.study.topology, bench.state.x)),
        STEP: Work(bench.step),
    }
    meeting.say(f"overlap: {case.case}")
    times = interleaved(works, size.rounds, meeting, size.block_ms(n))
    labels = {key: Label(key, topology) for key in works}
    *parts, step = rows_of(case, times, COMPUTE, labels)
    compute, exchange = (row.wall_ms for row in parts)
    return [*parts, replace(step, hidden=hidden_fraction(compute, exchange, step.wall_ms))]
