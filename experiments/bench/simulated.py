"""The simulator of time by its own measure: simulated learner-steps per second, over n."""

import time
from collections.abc import Iterator
from dataclasses import replace

import topologies
from experiments.bench.measure import Meeting, Times
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import Size
from gossip import stragglers
from gossip.algorithms import Dpsgd, Ssgd
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from gossip.simulate.presets import network
from gossip.simulate.setting import Setting

BASE = "SSGD"
GRAPHS = ("ring", "one-peer-exponential", "matching")
ROW_BYTES, GRADIENT = 1e8, 0.1


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each n: SSGD and DPSGD on three graphs, all under log-normal stragglers.

    Each simulation is timed once, with everything from the first matrix to the last step: it is
    long enough, and its second run would find the matrices made.
    """
    steps = size.simulated_steps
    for n in size.simulated_learners:
        case = Case(table="simulate", case=f"n={n}, {steps:,} steps", learners=n)
        meeting.say(f"simulate: {case.case}")
        times = {name: _timed(_setting(name, n), steps) for name in (BASE, *GRAPHS)}
        yield [replace(row, rounds=1) for row in rows_of(case, times, BASE)]


def _setting(name: str, n: int) -> Setting:
    """DPSGD on a graph of that name, or SSGD, on 10 Gbit/s."""
    graph = "ring" if name == BASE else name
    return Setting(
        pattern=Ssgd.pattern if name == BASE else Dpsgd.pattern,
        mixing=topologies.build(graph, n).matrix,
        network=network("10GbE"),
        compute=ComputeTimes(n, GRADIENT, stragglers.make("lognormal", [], n=n, seed=0)),
        row_bytes=ROW_BYTES,
    )


def _timed(setting: Setting, steps: int) -> Times:
    cpu, wall = time.process_time(), time.perf_counter()
    simulate(setting, steps)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Times([1e3 * wall / steps], [1e3 * cpu / steps], steps)
