"""Steps are timed with and without Gloo's idle threads beside them, in the same processes."""

from collections import defaultdict
from collections.abc import Iterator

from experiments.bench import ours
from experiments.bench.measure import Meeting, Times, interleaved
from experiments.bench.peers import gloo
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import MLP_670K, SMOKE, Size
from experiments.bench.training import BATCH, config_of
from experiments.bench.variants import Setting

BESIDE = ", idle Gloo"


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """Compute only, and ours, each without torch.distributed and beside it, in turn."""
    comm = meeting.comm
    widths = SMOKE.models[2][0] if size is SMOKE else MLP_670K
    setting = Setting.of(config_of(comm.n, widths), comm)
    offered = [*ours.floor(comm.n), *ours.offered(comm.n)]
    chosen = [v for v in offered if v.name in (ours.COMPUTE, ours.DPSGD)]
    works = {v.key: v.make(setting) for v in chosen if v.topology in ("-", "ring")}
    case = Case(
        table="interference",
        case=f"idle Gloo threads, {comm.n} processes",
        processes=comm.n,
        learners=comm.n,
        d=len(setting.learner.start),
        batch=BATCH,
    )
    meeting.say(f"interference: {case.case}")
    alone, beside = defaultdict(list), defaultdict(list)
    for _ in range(size.rounds):
        _add(alone, interleaved(works, 1, meeting, size.block_ms(comm.n)))
        with gloo(comm):
            _add(beside, interleaved(works, 1, meeting, size.block_ms(comm.n)))
    found = []
    for key in works:
        times = {key: _joined(alone[key]), key + BESIDE: _joined(beside[key])}
        found += rows_of(case, times, key)
    yield found


def _add(to: defaultdict[str, list[Times]], new: dict[str, Times]) -> None:
    for key, times in new.items():
        to[key].append(times)


def _joined(parts: list[Times]) -> Times:
    """The rounds of several measurements of the same variant."""
    wall = [ms for part in parts for ms in part.wall]
    cpu = [ms for part in parts for ms in part.cpu]
    return Times(wall, cpu, round(sum(part.steps for part in parts) / len(parts)))
