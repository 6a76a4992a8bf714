"""Lines of the simulator: closed forms, stragglers, weak scaling."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from experiments.time.papers import FLOPS
from experiments.time.rows import Row
from experiments.time.size import Size
from gossip.config import Averaging, Config
from gossip.config.reliability import Reliability
from gossip.simulate import scenario
from gossip.simulate.collectives import all_reduce
from gossip.simulate.engine import simulate
from gossip.simulate.presets import network, uniform
from gossip.simulate.scenario import Machines
from gossip.simulate.timeline import Timeline

CHOICES = {
    "SSGD": ("ssgd", "ring", "awc"),
    "DPSGD, ring": ("dpsgd", "ring", "awc"),
    "DPSGD, ring, atc": ("dpsgd", "ring", "atc"),
    "DPSGD, one-peer": ("dpsgd", "one-peer-exponential", "awc"),
    "DPSGD, matching": ("dpsgd", "matching", "awc"),
    "AD-PSGD": ("ad-psgd", "exponential", "awc"),
}
"""Label -> algorithm, topology, order."""
STRAGGLERS = {
    "all, 1 + Exp(0.5)": ("shifted-exponential", ("c=1", "rate=2")),
    "one, 3 times": ("constant", ("s=3", "learners=0")),
}
MOST_GRADIENTS, MOST_EVENTS = 200_000, 60_000
"""Of a line with and without a step in common: fewer steps for many learners."""
M, ALPHA = 1e8, 5e-6
"""Of the closed forms: bytes and latency."""
FLOP_PER_SECOND, SAMPLES = 1e13, 32
"""What a learner reaches, and its samples, in weak scaling."""


@dataclass(frozen=True)
class Step:
    """What is simulated of a choice."""

    choice: str
    n: int
    machines: Machines
    row_bytes: float
    straggler: tuple[str, tuple[str, ...]] = ("none", ())
    how: str = "ring"
    """The all-reduce."""

    def seconds(self, steps: int) -> float:
        """Per step, on average."""
        return self._timeline(steps).seconds_per_step

    def ends(self, steps: int) -> list[float]:
        """When all learners have ended each step."""
        return self._timeline(steps).last.tolist()

    def steady(self, steps: int) -> float:
        """Per step, in the second half: without what the common start has brought."""
        ends, half = self._timeline(steps).mean, steps // 2
        return float(ends[-1] - ends[half - 1]) / (steps - half)

    def _timeline(self, steps: int) -> Timeline:
        algorithm, topology, order = CHOICES[self.choice]
        name, options = self.straggler
        config = Config(
            reliability=Reliability(straggler=name, straggler_options=options),
            gossip=Averaging(learners=self.n, topology=topology, order=order),
        )
        made = scenario.setting(
            algorithm, config, self.machines, self.row_bytes, all_reduce=self.how
        )
        return simulate(made, steps)


def closed(size: Size) -> Iterator[Row]:
    """Seconds on equal links beside their closed forms."""
    for bits, n in product((1e9, 1e10, 1e11), (2, 16, 1024)):
        log, part, b, flat = math.log2(n), (n - 1) / n, 8 / bits, uniform("flat", ALPHA, bits / 8)
        forms = {
            "ring": 2 * (n - 1) * ALPHA + 2 * part * M * b,
            "recursive-doubling": log * (ALPHA + M * b),
            "halving-doubling": 2 * log * ALPHA + 2 * part * M * b,
            "tree": 2 * log * (ALPHA + M * b),
            "parameter-server": 2 * ALPHA + 2 * n * M * b,
        }
        for name, form in forms.items():
            ours = all_reduce(name, n, M, flat).seconds
            yield _closed(name, n, bits, ours, form)
        machines = Machines(network=flat, seconds=0.0)
        for choice, d in (("DPSGD, ring", min(2, n - 1)), ("DPSGD, one-peer", 1)):
            ours = Step(choice, n, machines, M).seconds(4)
            yield _closed(choice, n, bits, ours, ALPHA + d * M * b)


def _closed(name: str, n: int, bits: float, value: float, reference: float) -> Row:
    return Row(
        part="closed",
        table="closed",
        name=name,
        n=n,
        bandwidth=bits,
        latency=ALPHA,
        value=value,
        reference=reference,
    )


def stragglers(size: Size) -> Iterator[Row]:
    """Seconds a step where a gradient takes 1 s times its factor and messages nothing."""
    machines = Machines(network=network("ideal"), seconds=1.0)
    for n in size.learners:
        for (model, straggler), choice in product(STRAGGLERS.items(), CHOICES):
            most = MOST_EVENTS if choice == "AD-PSGD" else MOST_GRADIENTS
            steps = max(min(size.steps, most // n), 2)
            seconds = Step(choice, n, machines, 0.0, straggler).steady(steps)
            yield Row(
                part="stragglers", table="stragglers", name=choice, how=model, n=n, value=seconds
            )


def scaling(size: Size) -> Iterator[Row]:
    """Weak scaling: t_1 / t_n for two models, networks and ways to average."""
    for model, (flop, parameters) in FLOPS.items():
        compute = 3 * flop * SAMPLES / FLOP_PER_SECOND
        for name, choice, n in product(
            ("10GbE", "100Gb-IB"), ("SSGD", "DPSGD, one-peer"), size.workers
        ):
            machines = Machines(network=network(name), seconds=compute)
            seconds = Step(choice, n, machines, 4 * parameters).seconds(4)
            yield Row(
                part="scaling",
                table="scaling",
                name=f"{model}, {choice}",
                how=name,
                n=n,
                value=compute / seconds,
            )
