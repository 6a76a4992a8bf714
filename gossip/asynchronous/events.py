"""Event time: learners that each finish what they do at a moment of their own."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np


class Events:
    """Who of n learners is finished next; of those who are at once, the first learner.

    Args:
        finish: when each of them will be, [n], seconds.
        now: the present moment.
    """

    def __init__(self, finish: Iterable[float], now: float = 0.0) -> None:
        self.finish = np.array(list(finish), dtype=np.float64)
        """When each learner is finished with what it is doing, [n]."""
        self.now = now
        """When the last one was."""
        self._heap = [(float(end), i) for i, end in enumerate(self.finish)]
        heapify(self._heap)

    def next(self) -> int:
        """The learner that is finished next; time goes on to that moment."""
        self.now, i = heappop(self._heap)
        return i

    def begin(self, i: int, seconds: float) -> None:
        """Learner i, which was the next, does something that takes so long from now."""
        self.finish[i] = end = self.now + seconds
        heappush(self._heap, (float(end), i))
