"""Phase diagrams: who is fastest over bandwidth and latency, by a step and to a target."""

from collections.abc import Iterator, Mapping
from statistics import fmean

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
from gossip.simulate.phase_diagram import Grid, Seconds, diagram
from gossip.simulate.presets import network
from gossip.simulate.scenario import Machines

BANDWIDTHS, LATENCIES = (1e7, 1e13), (1e-6, 1e-1)
"""Ends of the axes of the phase diagrams, bits per second and seconds."""
COMPUTE, PARAMETERS = 0.1, 25.6e6
"""Of the phase diagrams by seconds per step: ResNet-50."""
RUN_COMPUTE = 2e-3
"""Seconds of a gradient of the runs to a common target: about what one core takes."""
COSTS = {
    "SSGD, ring": ("SSGD", "ring"),
    "SSGD, halving-doubling": ("SSGD", "halving-doubling"),
    "DPSGD, ring": ("DPSGD, ring", "ring"),
    "DPSGD, one-peer": ("DPSGD, one-peer", "ring"),
}
"""Label -> choice and all-reduce; of those as fast the first named wins."""
TUNED = "lamb"
"""The method of the rivals' study that came to the easier target with 16 learners and with 64."""


def phase(scale: Scale) -> Iterator[Row]:
    """Who is fastest over bandwidth and latency: by a step, and to targets that runs came to."""
    size = study(scale)
    for n in size.phase_learners:

        def seconds(net: Network, n: int = n) -> Mapping[str, float]:
            machines = Machines(network=net, seconds=COMPUTE)
            return {
                label: Step(choice, n, machines, 4 * PARAMETERS, how=how).seconds(4)
                for label, (choice, how) in COSTS.items()
            }

        yield from _rows("phase-step", n, size, seconds)
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

        def seconds(net: Network, n: int = n) -> Mapping[str, float]:
            machines, times = Machines(network=net, seconds=RUN_COMPUTE), {}
            for each in (one for one in found if one.n == n):
                for how in ("ring", "halving-doubling") if each.choice == "SSGD" else ("",):
                    step = Step(each.choice, n, machines, 4 * each.parameters, how=how or "ring")
                    label = f"{each.choice}, {how}" if how else each.choice
                    times[label] = fmean(step.ends(max(each.steps))[s - 1] for s in each.steps)
            return times

        yield from _rows("phase-runs", n, size, seconds)


def _one_or_many(size: Size) -> Iterator[Row]:
    """One learner or many: updates to the easier target, as recorded, times simulated seconds."""
    found = Rows(lena_study(ALL), read_csv(ALL.results / "rivals.csv"))
    alone = found.singles()
    compute = fmean(row.seconds / row.updates for row in alone)
    groups = {n: tuned_rows(found, TUNED, n) for n in found.study.rival_learners}
    row_bytes = {
        n: rows[0].bytes_per_step / (2 * (n - 1) / n) for n, rows in groups.items() if rows
    }

    def seconds(net: Network) -> Mapping[str, float]:
        machines = Machines(network=net, seconds=compute)
        times = {"1 learner": compute * fmean(row.easy_updates for row in alone)}
        for n, m in row_bytes.items():
            step = Step("SSGD", n, machines, m, how="halving-doubling").seconds(4)
            label = f"{n} learners, {RIVALS[TUNED].label}"
            times[label] = step * fmean(row.easy_updates for row in groups[n])
        return times

    yield from _rows("phase-target", max(row_bytes), size, seconds)


def _rows(table: str, n: int, size: Size, seconds: Seconds) -> Iterator[Row]:
    """A row for each network: the fastest and its seconds; `reference` has the next one's."""
    grid = Grid(bandwidths=BANDWIDTHS, latencies=LATENCIES, points=size.phase_points)
    for cell in diagram(grid, network("ideal"), seconds):
        yield Row(
            part="phase",
            table=table,
            name=cell.fastest,
            n=n,
            bandwidth=cell.bandwidth,
            latency=cell.latency,
            value=cell.seconds,
            reference=cell.next_seconds,
        )
