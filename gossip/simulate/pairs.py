"""Learners without a common step, in event time."""

from functools import lru_cache

import numpy as np

from gossip.algorithms import pattern as phases
from gossip.asynchronous.events import Events
from gossip.asynchronous.partners import draw_partner
from gossip.comm.costs import Sent, pair
from gossip.simulate.network import CLASSES, UNITS
from gossip.simulate.setting import Setting
from gossip.simulate.timeline import Timeline

ROWS_KEPT = 1024
"""Compute times kept for learners that are behind."""
MATRICES_KEPT = 128
"""W(t) likewise."""


def pairwise(setting: Setting, steps: int) -> Timeline:
    """Gradients of learners that average in pairs and wait for nobody, until there are n x steps.

    The averaging of a gradient begins with it, and waits while the partner answers others: a
    gradient has ended when both have. The partner is the one that training draws. As in
    `gossip.asynchronous.simulation`, of learners that end at once the first comes first.
    """
    (phase,) = setting.pattern
    assert isinstance(phase, phases.Pairwise)
    n, row_bytes = setting.n, phase.rows * setting.row_bytes
    pairs = _Pairs(setting, phase)
    events = Events(pairs.duration(i, 0, 0.0) for i in range(n))
    counts, busy, averagings = np.zeros(n, np.int64), np.zeros(n), 0
    mean = np.empty(steps)
    for t in range(steps):
        for _ in range(n):
            i = events.next()
            busy[i] += pairs.computes(counts[i])[i]
            averagings += int(pairs.asking[i])
            counts[i] += 1
            events.begin(i, pairs.duration(i, int(counts[i]), events.now))
        mean[t] = events.now
    end = np.full(n, events.now)
    each = pair(row_bytes)
    share = averagings / n
    whole = Sent(each.messages * share, each.bytes * share)
    return Timeline(mean, mean, mean, busy, end, whole)


class _Pairs:
    """How long gradients and the averagings beside them take."""

    def __init__(self, setting: Setting, phase: phases.Pairwise) -> None:
        self._setting, self._trips = setting, phase.trips
        self._bytes = phase.rows * setting.row_bytes
        self._free = np.zeros(setting.n)
        self.asking = np.zeros(setting.n, bool)
        """Whether each learner averages during its present gradient, [n]."""
        self.computes = lru_cache(ROWS_KEPT)(setting.compute.at)
        self._mixing = lru_cache(MATRICES_KEPT)(setting.mixing)
        everybody = np.arange(setting.n)
        units = [setting.network.units(unit, everybody).tolist() for unit in UNITS[1:]]
        self._places = list(zip(*units, strict=True))
        """Host, rack and region of each learner."""
        self._by_class: dict[int, tuple[float, float]] = {}

    def duration(self, i: int, k: int, now: float) -> float:
        """Seconds from now to the end of learner i's k-th gradient."""
        computed = float(self.computes(k)[i])
        j = draw_partner(self._mixing(k), self._setting.seed, i, k)
        self.asking[i] = j is not None
        if j is None:
            return computed
        averaging, work = self._between(i, j)
        self._free[j] = end = max(now, self._free[j]) + averaging
        return max(computed + work, end - now)

    def _between(self, i: int, j: int) -> tuple[float, float]:
        """Seconds of an averaging, and of processor beside it: the same for links of one class."""
        here, there = self._places[i], self._places[j]
        level = sum(a != b for a, b in zip(here, there, strict=True))
        if level not in self._by_class:
            self._by_class[level] = self._seconds(i, j), self._work(i, j)
        return self._by_class[level]

    def _work(self, i: int, j: int) -> float:
        """What messages cost the processor of i beside a gradient.

        Those of its own averaging, and as many of one that it answers: as many as a learner asks
        it answers on average.
        """
        return 2 * self._trips * self._message(i, j)

    def _message(self, i: int, j: int) -> float:
        """What a message costs each of its two processors, if their hosts' learners all send."""
        network = self._setting.network
        link = network.link(CLASSES[int(network.classes(np.array([i]), np.array([j]))[0])])
        return link.work(self._bytes) * network.sharing

    def _seconds(self, i: int, j: int) -> float:
        """Of an averaging, messages one after the other."""
        network = self._setting.network
        ends = np.array([i]), np.array([j])
        one = float(network.seconds(*ends, self._bytes)[0] + network.jitter(*ends)[0])
        one = max(one, self._message(i, j))
        return self._trips * one + self._bytes * network.reduce
