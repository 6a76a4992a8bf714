"""A training step is timed in the same processes: ours, the peers', by hand, and the floor."""

import gc
from collections.abc import Iterator

from experiments.bench import ours, peers, raw
from experiments.bench.measure import Meeting, Times, interleaved, packed
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import Size, memory_bytes
from experiments.bench.variants import Setting, Variant
from experiments.bench.workload import study_of
from gossip.config import Config, Model, Rate

BATCH = 32
LR, MOMENTUM = 0.01, 0.9


def config_of(n: int, widths: tuple[int, ...], dtype: str = "float32") -> Config:
    """The config of all variants: an MLP, SGD with momentum, 32 samples per learner."""
    return study_of(
        n,
        BATCH,
        dataset="few",
        model=Model(widths=widths, dtype=dtype),
        rate=Rate(lr=LR, momentum=MOMENTUM),
    )


def variants(n: int) -> list[Variant]:
    """All there are for n processes with a learner each."""
    return [*ours.floor(n), *ours.offered(n), *raw.offered(n), *peers.offered(n)]


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each model that this number of processes is to train."""
    comm = meeting.comm
    with peers.gloo(comm):
        for widths in size.models[comm.processes]:
            yield _case(size, meeting, Setting.of(config_of(comm.n, widths), comm))


def _case(size: Size, meeting: Meeting, setting: Setting) -> list[Row]:
    n, row_bytes = setting.comm.n, setting.learner.start.nbytes
    d = len(setting.learner.start)
    case = Case(
        table="training",
        case=f"{d:,} parameters, batch {BATCH}, {n} processes",
        processes=n,
        learners=n,
        d=d,
        batch=BATCH,
    )
    offered = {variant.key: variant for variant in variants(n)}
    room = size.share_of_memory * memory_bytes() / (n * row_bytes)
    needs = {key: variant.copies for key, variant in offered.items()}
    groups = packed(needs, ours.COMPUTE, room)
    left_out = set(needs) - {ours.COMPUTE}.union(*groups)
    for key in sorted(left_out):
        meeting.say(f"left out for lack of memory: {key}, {case.case}")
    labels = {key: variant.label(row_bytes) for key, variant in offered.items()}
    found: dict[str, Row] = {}
    for group in groups:
        times = _timed({key: offered[key] for key in group}, size, meeting, setting, case.case)
        for key, row in zip(times, rows_of(case, times, ours.COMPUTE, labels), strict=True):
            found.setdefault(key, row)
    return list(found.values())


def _timed(
    group: dict[str, Variant], size: Size, meeting: Meeting, setting: Setting, title: str
) -> dict[str, Times]:
    """Build the variants that take turns, and time them."""
    gc.collect()  # those of the group before; DistributedDataParallel refers to itself
    works = {key: variant.make(setting) for key, variant in group.items()}
    meeting.say(f"training: {title}: {len(works)} variants")
    return interleaved(works, size.rounds, meeting, size.block_ms(setting.comm.n))
