"""What is simulated: an algorithm's pattern, W(t), a network, compute times."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.sparse import csr_array

from gossip.algorithms.pattern import Pattern
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.network import Network
from gossip.simulate.overlap import NO_OVERLAP, Overlap

MixingMatrices = Callable[[int], csr_array]
"""t -> W(t)."""


@dataclass(frozen=True)
class Setting:
    """What is simulated."""

    pattern: Pattern
    """What a step of the algorithm computes and sends."""
    mixing: MixingMatrices
    """t -> W(t); never asked by an algorithm that mixes nothing."""
    network: Network
    compute: ComputeTimes
    row_bytes: float
    """M, the bytes of one learner's row."""
    all_reduce: str = "ring"
    """One of `gossip.simulate.collectives.ALL_REDUCES`."""
    seed: int = 0
    """It addresses the draws of jitter and of partners."""
    overlap: Overlap = NO_OVERLAP
    """Of a gradient and an all-reduce that comes right after it."""
    between_hosts: bool = False
    """Whether the learners of a host mix as one: then `mixing` gives W(t) of the hosts."""
    cycle: int = 1
    """Steps after which messages repeat: whole rounds, and whole periods of W(t)."""

    @property
    def n(self) -> int:
        """Number of learners."""
        return self.compute.n

    def whole(self, steps: int) -> int:
        """At least so many steps, in whole cycles: averages per step leave no message out."""
        return self.cycle * math.ceil(steps / self.cycle)
