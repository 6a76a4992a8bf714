"""Compute times: how long each learner's gradient takes at each step."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gossip.errors import UserError
from gossip.stragglers import Straggler
from gossip.streams import FAILURE, generator


@dataclass(frozen=True)
class Failures:
    """Learners fail, come back and do the step again.

    A learner's life until its next failure is exponential with mean `every`; a failure at x
    seconds into a step lengthens it by `repair` + x. At most one a step.
    """

    every: float
    """Mean seconds between two failures of a learner."""
    repair: float
    """Seconds until it is back."""
    seed: int

    def __post_init__(self) -> None:
        if not self.every > 0:
            raise UserError(f"fail_every={self.every}: give the mean seconds between two failures")
        if not 0 <= self.repair < math.inf:
            raise UserError(f"repair={self.repair}: give seconds from 0 up")

    def lost(self, t: int, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds that step t takes longer, [n], if undisturbed it took `seconds` [n]."""
        life = generator(self.seed, FAILURE, t).exponential(self.every, len(seconds))
        return np.where(life < seconds, self.repair + life, 0.0)


@dataclass(frozen=True)
class ComputeTimes:
    r"""C_j(t) = c v_j \sigma_j(t), and longer where a learner fails.

    sigma is that of `--straggler`, the same draws as in training and for every algorithm.
    """

    n: int
    seconds: float
    """c, what an undisturbed gradient takes."""
    straggler: Straggler | None = None
    slowness: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))
    """v_j, [n] or [1]: how much longer a gradient takes on learner j's machine."""
    failures: Failures | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf:
            raise UserError(f"compute={self.seconds}: give seconds from 0 up")
        allowed = (self.slowness > 0) & (self.slowness < math.inf)
        if len(self.slowness) not in (1, self.n) or not allowed.all():
            raise UserError(
                f"slowness of {len(self.slowness)} learners for {self.n}: give a number above 0 "
                "for each"
            )

    def at(self, t: int) -> NDArray[np.float64]:
        """C(t), [n]."""
        seconds = np.broadcast_to(self.seconds * self.slowness, self.n)
        if self.straggler is not None:
            seconds = seconds * self.straggler.row(t)
        return seconds if self.failures is None else seconds + self.failures.lost(t, seconds)
