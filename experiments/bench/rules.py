"""SSGD updates with the rules that measure gradients are timed against one with a constant rate."""

from collections.abc import Iterator

from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.workload import Bench, study_of
from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked
from gossip.config import Model, Rate

PLAIN = "constant rate"
RULES = {PLAIN: "none", "AdaScale": "adascale", "LENA": "lena"}
ACROSS = ("mlp", 2, 128)
"""(model, n, B) with a process per learner."""


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """All learners in one process."""
    for model, n, batch in size.rate_studies:
        yield _case(size, meeting, model, n, batch, Stacked(n))


def rows_across(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A learner in each of two processes."""
    yield _case(size, meeting, *ACROSS, meeting.comm)


def _case(
    size: Size, meeting: Meeting, model: str, n: int, batch: int, comm: Communicator
) -> list[Row]:
    data = size.dataset if model == "mlp" else "cifar_like"
    benches = {
        rule: _bench(model, n, batch, scaling, comm, data) for rule, scaling in RULES.items()
    }
    case = Case(
        table="rules",
        case=f"SSGD update by rule, {model}, n={n} B={batch}, {comm.processes} process(es)",
        processes=comm.processes,
        learners=n,
        d=benches[PLAIN].study.task.d,
        batch=batch,
    )
    meeting.say(f"rules: {case.case}")
    works = {rule: Work(bench.step) for rule, bench in benches.items()}
    rounds = size.rounds if model == "mlp" else min(3, size.rounds)
    return rows_of(case, interleaved(works, rounds, meeting, size.block_ms()), PLAIN)


def _bench(model: str, n: int, batch: int, scaling: str, comm: Communicator, dataset: str) -> Bench:
    config = study_of(
        n,
        batch,
        dataset=dataset,
        model=Model(model=model),
        rate=Rate(lr=1e-3, momentum=0.9, scaling=scaling),
        algorithm="ssgd",
    )
    return Bench(config, comm)
