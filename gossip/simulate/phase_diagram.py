"""Phase diagrams: who is fastest, over the bandwidth and the latency between hosts."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gossip.config.fields import at_least
from gossip.errors import UserError
from gossip.simulate.network import Network

AS_FAST = 0.01
"""Relative difference of seconds that does not count."""

Seconds = Callable[[Network], Mapping[str, float]]
"""Network -> what each choice takes on it, by name."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The networks of a diagram: as many bandwidths as latencies, in equal ratios."""

    bandwidths: tuple[float, float]
    """Least and largest, bits per second."""
    latencies: tuple[float, float]
    """Least and largest, seconds."""
    points: int
    """On each axis."""

    def __post_init__(self) -> None:
        at_least(2, points=self.points)
        for name in ("bandwidths", "latencies"):
            low, high = getattr(self, name)
            if not 0 < low < high < math.inf:
                raise UserError(
                    f"{name}={low:g} {high:g}: give the least and the largest, above 0, which the "
                    "axis of a phase diagram begins and ends with"
                )

    def networks(self, network: Network) -> Iterator[tuple[float, float, Network]]:
        """Bandwidth, latency, and `network` with these between its hosts.

        Raises:
            UserError: it has no links between hosts.
        """
        axes = (np.geomspace(*ends, self.points) for ends in (self.latencies, self.bandwidths))
        for latency, bandwidth in product(*(axis.tolist() for axis in axes)):
            yield bandwidth, latency, network.between_hosts(latency, bandwidth / 8)


@dataclass(frozen=True)
class Fastest:
    """Who is fastest on one network."""

    bandwidth: float
    """Bits per second."""
    latency: float
    """Seconds."""
    fastest: str
    seconds: float
    """What it takes."""
    next: str
    """The fastest of the others; empty: there is none."""
    next_seconds: float
    """What that takes."""


def diagram(grid: Grid, network: Network, seconds: Seconds) -> list[Fastest]:
    """A cell for each network of the grid, bandwidth after bandwidth.

    Of those that are as fast as the fastest, the first that `seconds` names wins.

    Raises:
        UserError: the network has no links between hosts.
    """
    return [
        _cell(bandwidth, latency, seconds(made))
        for bandwidth, latency, made in grid.networks(network)
    ]


def _cell(bandwidth: float, latency: float, seconds: Mapping[str, float]) -> Fastest:
    """Of those that are as fast as the fastest, within AS_FAST, the first named wins."""
    least = min(seconds.values())
    fastest = next(name for name, s in seconds.items() if s <= least * (1 + AS_FAST))
    others = {name: s for name, s in seconds.items() if name != fastest}
    second = min(others, key=lambda name: others[name], default="")
    return Fastest(
        bandwidth, latency, fastest, seconds[fastest], second, others.get(second, math.nan)
    )


def shares(cells: Sequence[Fastest]) -> dict[str, float]:
    """The share of the networks that each wins, the largest first."""
    won = Counter(cell.fastest for cell in cells)
    return {name: count / len(cells) for name, count in won.most_common()}


def sentence(cells: Sequence[Fastest], what: str) -> str:
    """Who wins most of the networks, and from which bandwidth on each of the others wins some."""
    (first, share), *others = shares(cells).items()
    said = f"{what}: {first} is fastest on {share:.0%} of {len(cells)} networks"
    for name, share in others:
        won = [cell for cell in cells if cell.fastest == name]
        said += f"; {name} on {share:.0%}, from {rate(min(cell.bandwidth for cell in won))} up"
    return said + "."


def rate(bits: float) -> str:
    """Bits per second in a unit that leaves one to three digits."""
    for size, unit in ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s")):
        if bits >= size * (1 - 1e-9):
            return f"{bits / size:.3g} {unit}"
    return f"{bits:.3g} bit/s"
