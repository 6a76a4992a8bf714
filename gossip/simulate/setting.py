"""What is simulated: an algorithm's pattern, W(t), a network, compute times."""

from collections.abc import Callable
from dataclasses import dataclass

from scipy.sparse import csr_array

from gossip.algorithms.pattern import Pattern
from gossip.simulate.compute import Compute
from gossip.simulate.network import Network

Mixing = Callable[[int], csr_array]
"""t -> W(t)."""


@dataclass(frozen=True)
class Setting:
    """What is simulated."""

    pattern: Pattern
    """Of the algorithm."""
    mixing: Mixing
    """t -> W(t); never asked by an algorithm that mixes nothing."""
    network: Network
    compute: Compute
    row_bytes: float
    """M, of one learner's row."""
    all_reduce: str = "ring"
    """One of `gossip.simulate.collectives.ALL_REDUCES`."""
    seed: int = 0
    """Of jitter, and of partners."""

    @property
    def n(self) -> int:
        """Number of learners."""
        return self.compute.n
