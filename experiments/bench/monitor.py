"""The cost of the monitor is that of one call against one step."""

from collections.abc import Iterator
from functools import partial

from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.workload import LR, Bench, study_of
from gossip.comm.stacked import Stacked
from gossip.monitor import LEVELS, Moment, Monitor

STEP = "step"


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """Measure all levels, on the default study's learners."""
    n, batch = size.study
    bench = Bench(study_of(n, batch, dataset=size.dataset), Stacked(n))
    moment = _moment(bench)
    monitors = {level: Monitor(bench.study.task, level=level) for level in LEVELS}
    monitors["standard, probe"] = Monitor(bench.study.task, source="probe")
    works = {STEP: Work(bench.step)}
    works |= {
        name: Work(partial(monitor, moment, bench.comm)) for name, monitor in monitors.items()
    }
    case = Case(
        table="monitor",
        case=f"one call of the monitor, n={n} B={batch} N={len(bench.study.task.train):,}",
        learners=n,
        d=bench.study.task.d,
        batch=batch,
    )
    meeting.say(f"monitor: {case.case}")
    yield rows_of(case, interleaved(works, max(2, size.rounds // 3), meeting, 1.0), STEP)


def _moment(bench: Bench) -> Moment:
    """The moment of a step that the monitor observes."""
    before = bench.state
    bench.step()
    return Moment(
        step=0,
        lr=LR,
        x=before.x,
        points=bench.last.points,
        gradients=bench.last.gradients,
        mixed=bench.last.mixed,
        x_next=bench.state.x,
        inputs=bench.inputs,
        labels=bench.labels,
    )
