"""Phase diagrams: who is fastest over bandwidth and latency, by a step and to a target."""

import math
from collections.abc import Iterator
from itertools import product
from statistics import fmean

import numpy as np

from experiments.common.scale import FULL as ALL
from experiments.common.scale import Scale
from experiments.lena.plan import study as lena_study
from experiments.lena.rows import read_csv
from experiments.lena.tables import Rows
from experiments.rivals.plan import RIVALS, tuned_rows
from experiments.time import to_target
from experiments.time.rows import Row
from experiments.time.simulated import Step
from experiments.time.size import Size, study
from gossip.simulate.network import Network
from gossip.simulate.presets import uniform
from gossip.simulate.scenario import Machines

BANDWIDTHS, LATENCIES = (1e7, 1e13), (1e-6, 1e-1)
"""Ends of the axes of the phase diagrams, bits per second and seconds."""
COMPUTE, PARAMETERS = 0.1, 25.6e6
"""Of the phase diagrams by seconds per step: ResNet-50."""
RUN_COMPUTE = 2e-3
"""Seconds of a gradient of the runs to a common target: about what one core takes."""
AS_FAST = 0.01
"""Relative difference of seconds that does not count: then the exact average wins."""
TUNED = "lamb"
"""The method of the rivals' study that came to the easier target with 16 learners and with 64."""


def phase(scale: Scale) -> Iterator[Row]:
    """Who is fastest over bandwidth and latency: by a step, and to targets that runs came to."""
    size = study(scale)
    for n in size.phase_learners:
        costs = {
            "SSGD, ring": ("SSGD", "ring"),
            "SSGD, halving-doubling": ("SSGD", "halving-doubling"),
            "DPSGD, ring": ("DPSGD, ring", "ring"),
            "DPSGD, one-peer": ("DPSGD, one-peer", "ring"),
        }
        for net in _nets(size):
            machines = Machines(network=net, seconds=COMPUTE)
            seconds = {
                label: Step(choice, n, machines, 4 * PARAMETERS, how=how).seconds(4)
                for label, (choice, how) in costs.items()
            }
            yield _winner("phase-step", n, net, seconds)
    yield from _gossip_to_target(scale)
    yield from _one_or_many(size)


def _gossip_to_target(scale: Scale) -> Iterator[Row]:
    """All-reduce or gossip, to the error that the runs of both came to."""
    size, points = study(scale), to_target.read(scale)
    if not points:
        return
    goal, found = to_target.target(points), to_target.reached(points)
    for each in found:
        yield Row(
            part="phase",
            table="to-target",
            name=each.choice,
            how=f"{each.alpha:g}",
            n=each.n,
            value=fmean(each.steps),
            reference=goal,
        )
    for n in dict.fromkeys(each.n for each in found):
        for net in _nets(size):
            machines = Machines(network=net, seconds=RUN_COMPUTE)
            seconds = {}
            for each in (one for one in found if one.n == n):
                for how in ("ring", "halving-doubling") if each.choice == "SSGD" else ("",):
                    step = Step(each.choice, n, machines, 4 * each.parameters, how=how or "ring")
                    label = f"{each.choice}, {how}" if how else each.choice
                    seconds[label] = fmean(step.ends(max(each.steps))[s - 1] for s in each.steps)
            yield _winner("phase-runs", n, net, seconds)


def _one_or_many(size: Size) -> Iterator[Row]:
    """One learner or many: updates to the easier target, as recorded, times simulated seconds."""
    found = Rows(lena_study(ALL), read_csv(ALL.results / "rivals.csv"))
    alone = found.singles()
    compute = fmean(row.seconds / row.updates for row in alone)
    groups = {n: tuned_rows(found, TUNED, n) for n in found.study.rival_learners}
    row_bytes = {
        n: rows[0].bytes_per_step / (2 * (n - 1) / n) for n, rows in groups.items() if rows
    }
    for net in _nets(size):
        machines = Machines(network=net, seconds=compute)
        seconds = {"1 learner": compute * fmean(row.easy_updates for row in alone)}
        for n, m in row_bytes.items():
            step = Step("SSGD", n, machines, m, how="halving-doubling").seconds(4)
            label = f"{n} learners, {RIVALS[TUNED].label}"
            seconds[label] = step * fmean(row.easy_updates for row in groups[n])
        yield _winner("phase-target", max(row_bytes), net, seconds)


def _nets(size: Size) -> Iterator[Network]:
    points = size.phase_points
    for latency, bits in product(
        np.geomspace(*LATENCIES, points), np.geomspace(*BANDWIDTHS, points)
    ):
        yield uniform("grid", float(latency), float(bits) / 8)


def _winner(table: str, n: int, net: Network, seconds: dict[str, float]) -> Row:
    """The fastest; of those within AS_FAST of it the first named. `reference`: the next best."""
    best = min(seconds.values())
    name = next(k for k, s in seconds.items() if s <= best * (1 + AS_FAST))
    others = [s for k, s in seconds.items() if k.split(",")[0] != name.split(",")[0]]
    link = net.links["rack"]
    return Row(
        part="phase",
        table=table,
        name=name,
        n=n,
        bandwidth=8 * link.up,
        latency=link.latency,
        value=seconds[name],
        reference=min(others, default=math.nan),
    )
