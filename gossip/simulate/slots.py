"""A synchronous parameter server whose workers have fewer slots than there are workers.

The AdaDamp paper simulated its networks by sleeping in tasks, of which 4 ran at a time; so its
decentralised times hold for 4 slots. With as many slots as workers the same model says what such
workers would take.

Reference: Sievert and Shah, "Improving the convergence of SGD through adaptive batch sizes",
arXiv 1910.08222, Tables 1 and 2.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

GRADIENT = 78.32e-3
"""Seconds that a task took for 128 samples."""
PER_TASK = 128
"""Samples of a task."""


class Stretch(NamedTuple):
    """Updates of a training history that have the same batch."""

    updates: int
    batch: int
    """Samples of an update, over all workers."""


@dataclass(frozen=True)
class Slots:
    r"""P workers take :math:`\lceil P / s \rceil (T_{copy}(P) + T_{grad}) + h(P)` an update."""

    copy: Callable[[int], float]
    """T_copy, seconds by workers."""
    overhead: Callable[[int], float]
    """h, seconds by workers."""
    slots: float
    """s, tasks that run at a time."""
    gradient: float = GRADIENT
    """T_grad of `PER_TASK` samples."""

    def update(self, workers: int) -> float:
        """Seconds of one update."""
        rounds = math.ceil(workers / self.slots)
        return max(rounds, 1) * (self.copy(workers) + self.gradient) + self.overhead(workers)

    def replay(self, history: Iterable[Stretch]) -> float:
        """Seconds of a training history, with a worker for every `PER_TASK` samples."""
        return sum(
            stretch.updates * self.update(max(1, math.ceil(stretch.batch / PER_TASK)))
            for stretch in history
        )

    def unlimited(self) -> "Slots":
        """With a slot for each worker, and what one worker costs beside its task."""
        return replace(self, slots=math.inf, overhead=lambda workers: self.overhead(1))


def _overhead(workers: int) -> float:
    """h(P): what all 21 medians have beyond the sleeps, fitted to them."""
    return 4.106e-3 + 10.033e-3 * workers**0.7111


ADADAMP = {
    "centralised": Slots(lambda workers: 58.55e-3, _overhead, 4),
    "moderate": Slots(lambda workers: 1.55e-3 * math.log2(workers), _overhead, 4),
    "high": Slots(lambda workers: 0.127488e-3 * math.log2(workers), _overhead, 4),
}
"""The paper's networks, with the 4 slots that its simulation had."""
