r"""Steps measured between hosts, predicted: constants from some cells, errors on the others.

The network of a cell of rate r and one-way delay D is alpha = a + k D, 1 / beta = e r: a is what a
message costs the machine, k how often a message crosses the network before it is there (a protocol
that asks first has more than one), e the share of the rate that rows get. A gradient takes what it
took without neighbours in the same cell.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import topologies
from experiments.common import tables
from experiments.common.scale import Scale
from experiments.time.rows import Row
from experiments.time.size import NETNS, PARAMETERS
from gossip.algorithms import Dpsgd, Ssgd
from gossip.simulate.compute import Compute
from gossip.simulate.engine import simulate
from gossip.simulate.presets import uniform
from gossip.simulate.setting import Setting

STEPS = 4
COMPUTE = "compute"
FITTED_VARIANTS, FITTED_HOSTS, FITTED_MBITS = ("ring", "ssgd"), (2, 4), (10.0, 100.0)
"""Cells that the constants come from: DPSGD on the ring and SSGD, all delays."""
START = (1e-3, 1.0, 1.0)
"""a in seconds, k and e before the search."""


@dataclass(frozen=True)
class Cell:
    """A measurement."""

    n: int
    mbits: float
    delay: float
    """Seconds, one way."""
    variant: str
    seconds: float

    @property
    def is_fitted(self) -> bool:
        """Whether the constants are taken from it, too."""
        return (
            self.variant in FITTED_VARIANTS
            and self.n in FITTED_HOSTS
            and self.mbits in FITTED_MBITS
        )


@dataclass(frozen=True)
class Constants:
    """What the cells that are fitted say."""

    a: float
    k: float
    e: float

    def predict(self, cell: Cell, compute: float) -> float:
        """Seconds of a step."""
        latency = self.a + self.k * cell.delay
        network = uniform("hosts", latency, self.e * cell.mbits * 1e6 / 8)
        gossip = cell.variant in ("ring", "one-peer-exponential")
        made = Setting(
            pattern=Dpsgd.pattern if gossip else Ssgd.pattern,
            mixing=_graph(cell.variant if gossip else "ring", cell.n).matrix,
            network=network,
            compute=Compute(cell.n, compute),
            row_bytes=4.0 * PARAMETERS,
        )
        return simulate(made, STEPS).seconds_per_step


@cache
def _graph(name: str, n: int) -> topologies.Topology:
    return topologies.build(name, n)


def cells(scale: Scale) -> list[Cell]:
    """All that was measured; nothing if there is no table."""
    return [
        Cell(
            int(row["n"]),
            float(row["mbits"]),
            1e-3 * float(row["delay_ms"]),
            row["variant"],
            float(row["seconds"]),
        )
        for row in tables.read(scale.results / NETNS)
    ]


def gradients(found: Sequence[Cell]) -> dict[tuple[int, float, float], float]:
    """Seconds of a gradient by hosts, rate and delay."""
    return {_place(cell): cell.seconds for cell in found if cell.variant == COMPUTE}


def fitted(found: Sequence[Cell]) -> Constants:
    """The constants with the least sum of |ln(predicted / measured)|, softened near 0."""
    compute = gradients(found)
    used = [cell for cell in found if cell.is_fitted]

    def residuals(logs: NDArray[np.float64]) -> list[float]:
        constants = Constants(*np.exp(logs))
        predicted = [constants.predict(cell, compute[_place(cell)]) for cell in used]
        return [math.log(p / cell.seconds) for p, cell in zip(predicted, used, strict=True)]

    # A step during which somebody else had the cores counts once, not squared.
    found_logs = least_squares(residuals, np.log(START), x_scale=0.3, loss="soft_l1", f_scale=0.05)
    return Constants(*np.exp(found_logs.x))


def _place(cell: Cell) -> tuple[int, float, float]:
    return cell.n, cell.mbits, cell.delay


def rows(scale: Scale) -> Iterator[Row]:
    """The constants, and each cell with its prediction; nothing if nothing was measured."""
    found = cells(scale)
    if not any(cell.is_fitted for cell in found):
        return
    constants, compute = fitted(found), gradients(found)
    for name in ("a", "k", "e"):
        yield Row(part="measured", table="constants", name=name, value=getattr(constants, name))
    for cell in found:
        if cell.variant != COMPUTE:
            yield Row(
                part="measured",
                table="measured",
                name=cell.variant,
                how="fitted" if cell.is_fitted else "held out",
                n=cell.n,
                bandwidth=1e6 * cell.mbits,
                latency=cell.delay,
                value=constants.predict(cell, compute[_place(cell)]),
                reference=cell.seconds,
            )
