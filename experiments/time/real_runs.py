"""The stragglers of sixteen real processes, predicted before they are looked at.

`experiments.processes.stragglers` made them: 16 processes on 2 cores, a gradient of c = 50 ms that
is slept, messages through shared memory. The prediction is without any network: c and the draws.
"""

from collections.abc import Iterator

from experiments.common import tables
from experiments.common.scale import Scale
from experiments.time.rows import Row
from experiments.time.simulated import Step
from gossip.simulate.presets import network
from gossip.simulate.scenario import Machines

TABLES = {"real": "stragglers.csv", "real-again": "stragglers_again.csv"}
"""Two series: one on a quiet machine, of before stragglers were drawn at addresses by learner, and
one of today's draws, on a busy machine."""
N, STEPS = 16, 200
CHOICES = {
    "SSGD": "SSGD",
    "DPSGD, ring": "DPSGD, ring",
    "DPSGD, one-peer exponential": "DPSGD, one-peer",
    "AD-PSGD, exponential": "AD-PSGD",
}
"""Algorithms of the table, as `simulated.CHOICES` calls them."""
MODELS = {
    "nobody": ("none", ()),
    "learner 0, 3 times": ("constant", ("s=3", "learners=0")),
    "all, 1 + Exp(0.5)": ("shifted-exponential", ("c=1", "rate=2")),
}
"""What the learners' gradients took in units of c; a step of AD-PSGD is n gradients."""


def rows(scale: Scale) -> Iterator[Row]:
    """A prediction for each run of the table, in units of c; none if there is no table."""
    machines = Machines(network=network("ideal"), seconds=1.0)
    for table, file in TABLES.items():
        for row in tables.read(scale.results / file):
            straggler = MODELS[row["slow"]]
            step = Step(CHOICES[row["algorithm"]], N, machines, 0.0, straggler)
            yield Row(
                part="real",
                table=table,
                name=row["algorithm"],
                how=row["slow"],
                n=N,
                value=step.seconds(STEPS),
                reference=float(row["c_per_step"]),
            )
