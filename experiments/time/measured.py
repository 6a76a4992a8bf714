r"""Steps measured between hosts, predicted: constants from some cells, errors on the others.

A cell of rate r and one-way delay D has alpha = k D and 1 / beta = e r: k is how often a message
crosses the network before it is there (a protocol that asks first has more than one), e the share
of the rate that rows get. Its hosts are one machine: a message of M bytes costs each of its ends
o + M h seconds of the two cores that all share, and M f more where a process holds the frames. A
gradient takes what it took without neighbours in the same cell, where each learner had a core for
its turn (SCHED_RR) and the others waited: together they take n / 2 of that.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
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
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from gossip.simulate.network import Link, Network
from gossip.simulate.setting import Setting

STEPS = 4
COMPUTE = "compute"
FITTED_VARIANTS, FITTED_HOSTS = ("ring", "ssgd"), (2, 4)
"""Cells that the constants come from: DPSGD on the ring and SSGD, all rates and delays. Eight
hosts, the one-peer graph and DistributedDataParallel are predicted."""
CORES = 2
"""Of the machine that all hosts are."""


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
        return self.variant in FITTED_VARIANTS and self.n in FITTED_HOSTS


@dataclass(frozen=True)
class Constants:
    """What the cells that are fitted say."""

    o: float
    """Seconds of a core that a message costs each of its ends."""
    h: float
    """And a byte."""
    f: float
    """And a byte more where a process holds the frames."""
    k: float
    """Crossings of the network."""
    e: float
    """Share of the rate."""

    def network(self, cell: Cell) -> Network:
        """Of a cell: all its hosts are one machine, and each has an interface of its own."""
        rate = self.e * cell.mbits * 1e6 / 8
        link = Link(
            latency=self.k * cell.delay,
            up=rate,
            down=rate,
            shared_by="learner",
            overhead=self.o,
            handling=self.h + (self.f if cell.delay else 0.0),
        )
        return Network(name="hosts", links={"host": link}, learners_per_host=cell.n, cores=CORES)

    def predict(self, cell: Cell, compute: float) -> float:
        """Seconds of a step; `compute`: of a gradient that has a core for itself."""
        network = self.network(cell)
        gossip = cell.variant in ("ring", "one-peer-exponential")
        made = Setting(
            pattern=Dpsgd.pattern if gossip else Ssgd.pattern,
            mixing=_graph(cell.variant if gossip else "ring", cell.n).matrix,
            network=network,
            compute=ComputeTimes(cell.n, compute * network.sharing),
            row_bytes=4.0 * PARAMETERS,
        )
        return simulate(made, STEPS).seconds_per_step


START = Constants(o=1e-4, h=1e-9, f=3e-9, k=1.0, e=1.0)
"""Before the search."""


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
    found_logs = least_squares(
        residuals, np.log(astuple(START)), x_scale=0.3, loss="soft_l1", f_scale=0.05
    )
    return Constants(*np.exp(found_logs.x))


def _place(cell: Cell) -> tuple[int, float, float]:
    return cell.n, cell.mbits, cell.delay


def rows(scale: Scale) -> Iterator[Row]:
    """The constants, and each cell with its prediction; nothing if nothing was measured."""
    found = cells(scale)
    if not any(cell.is_fitted for cell in found):
        return
    constants, compute = fitted(found), gradients(found)
    for name, value in asdict(constants).items():
        yield Row(part="measured", table="constants", name=name, value=value)
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
