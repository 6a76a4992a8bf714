"""A step of every method of the table over DPSGD's, all learners in one process."""

from collections.abc import Iterator
from dataclasses import replace

from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Label, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.workload import Bench, study_of
from gossip.algorithms import ALGORITHMS
from gossip.algorithms.options import WithOptions
from gossip.comm.stacked import Stacked

BASE = "dpsgd"
TOGETHER = {"every": "1", "fragments": "1", "delay": "0", "after": "0"}
"""Rounds of one step: a step and what learners do at a round's end."""
TOPOLOGIES = {"relaysgd": "chain"}
"""Of methods that the ring does not suit."""


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case with all of them, taking turns."""
    n, batch = size.small_study
    benches = {name: _bench(name, n, batch, size) for name in size.methods}
    case = Case(
        table="methods",
        case=f"784-50-50-10, n={n} B={batch}, rounds of one step",
        learners=n,
        d=benches[BASE].study.task.d,
        batch=batch,
    )
    meeting.say(f"methods: {case.case}")
    works = {name: Work(bench.step) for name, bench in benches.items()}
    times = interleaved(works, size.rounds, meeting, size.block_ms())
    yield rows_of(case, times, BASE, {name: _label(name, benches[name]) for name in benches})


def _bench(name: str, n: int, batch: int, size: Size) -> Bench:
    topology, line = TOPOLOGIES.get(name, "ring"), ALGORITHMS[name]
    config = study_of(n, batch, dataset=size.dataset, algorithm=name, topology=topology)
    own = line.options if isinstance(line, WithOptions) else []
    options = tuple(f"{key}={value}" for key, value in TOGETHER.items() if key in own)
    gossip = replace(config.gossip, algorithm_options=options)
    return Bench(replace(config, gossip=gossip), Stacked(n))


def _label(name: str, bench: Bench) -> Label:
    """With the bytes of a step, which all steps have alike."""
    sent = bench.comm.traffic.bytes_sent_per_learner / bench.t
    return Label(name, TOPOLOGIES.get(name, "ring"), sent)
