r"""Max-plus recursions: when each learner ends each step, for algorithms with a step in common.

S_j(t), the moment learner j begins step t, goes through the phases of the step:

- LocalGradient: S_j + C_j(t)
- Mix: max(S_j, max_k (S_k + tau_kj)), k the in-neighbours of j at t, then the rows are added
- Mean: max_k S_k + T_allreduce, of which a part may hide behind the gradient right before it
- AllGather: as Mix, with all others as in-neighbours
- Partner: as Mix, with one other, drawn anew
- Overlapped: the later of the two, both begun at S_j, and not before C_j and what messages cost the
  learner's processor have been done one after the other
- Mix between hosts: see `gossip.simulate.hierarchy`
- Every: its phase in every k-th step, nothing in the others; Until: in the first steps
- Late: a Mean that began where all were so many steps ago, and not before what its messages cost
  the learner's processor has been done beside what it computed meanwhile

Each costs O(n deg) a step; nothing of a step is kept but sums.

Reference: Baccelli et al., "Synchronization and linearity", 1992 (max-plus recursions).
"""

import numpy as np
from numpy.typing import NDArray

from gossip.algorithms import pattern as phases
from gossip.comm.costs import NOTHING
from gossip.simulate.collectives import Cost, all_reduce
from gossip.simulate.edges import Edges, Remembered
from gossip.simulate.hierarchy import Hosts, hosts
from gossip.simulate.pairs import pairwise
from gossip.simulate.setting import Setting
from gossip.simulate.timeline import Timeline
from topologies.matrices import average
from topologies.random_pairs import matching

NUMBER = 4
"""Bytes of a single number beside a row."""


def simulate(setting: Setting, steps: int) -> Timeline:
    """When each of the learners ends each of so many steps.

    Raises:
        UserError: the network lacks a link, or cannot have this all-reduce.
    """
    if any(isinstance(phase, phases.Pairwise) for phase in setting.pattern):
        return pairwise(setting, steps)
    return _Common(setting).run(steps)


class _Common:
    """The recursion of a step in common."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._edges: dict[float, Remembered] = {}
        self._means: dict[float, Cost] = {}
        self._all: dict[float, Remembered] = {}
        self._pairs: dict[float, Remembered] = {}
        self._left: dict[int, float] = {}
        """When the last learner sent its part of the averages that are waited for in step t."""
        self._hosts: dict[float, Hosts] = {}
        self.sent = NOTHING
        self.busy = np.zeros(setting.n)
        self._work = np.zeros(setting.n)
        """Seconds in which processors were occupied in the phases that overlap."""
        self._gradient = np.zeros(setting.n)
        """What the last gradients took, [n]."""
        self._hides = False
        """Whether a part of an average may hide behind them."""

    def run(self, steps: int) -> Timeline:
        ready, pattern = np.zeros(self._setting.n), self._setting.pattern
        first, mean, last = np.empty(steps), np.empty(steps), np.empty(steps)
        for t in range(steps):
            for before, phase in zip((None, *pattern), pattern, strict=False):
                # Rounds average weights, in the end.
                is_round = isinstance(phase, phases.Every)
                self._hides = isinstance(before, phases.LocalGradient) and not is_round
                ready = self._after(phase, ready, t)
            first[t], mean[t], last[t] = ready.min(), ready.mean(), ready.max()
        return Timeline(first, mean, last, self.busy, ready, self.sent)

    def _after(
        self, phase: phases.Phase, ready: NDArray[np.float64], t: int
    ) -> NDArray[np.float64]:
        """When each learner is through a phase that it comes to at `ready`, [n]."""
        match phase:
            case phases.LocalGradient():
                seconds = self._setting.compute.at(t)
                self.busy += seconds
                self._work = self._work + seconds
                self._gradient = seconds
                return ready + seconds
            case phases.Mix(rows=rows, numbers=numbers) if self._setting.between_hosts:
                return self._mixed_by_hosts(rows, numbers, ready, t)
            case phases.Mix(rows=rows, numbers=numbers):
                return self._arrived(self._mix(rows, numbers).at(t), ready, t)
            case phases.AllGather(rows=rows):
                return self._arrived(self._exchange(rows).at(0), ready, t)
            case phases.Partner(rows=rows):
                return self._arrived(self._partners(rows).at(t), ready, t)
            case phases.Mean():
                cost = self._sent_mean(phase)
                gradient = float(self._gradient[ready.argmax()]) if self._hides else 0.0
                exposed = self._setting.overlap.exposed(cost.seconds, gradient)
                return np.full_like(ready, ready.max() + exposed)
            case phases.Every(phase=phases.Late() as late) if late.steps:
                return self._late(phase, late, ready, t)
            case phases.Late(phase=inner):
                return self._after(inner, ready, t)
            case phases.Every(phase=inner):
                return self._after(inner, ready, t) if phase.due(t) else ready
            case phases.Until(steps=steps, phase=inner):
                return self._after(inner, ready, t) if t < steps else ready
            case phases.Overlapped(first=first, second=second):
                self._work = np.zeros(self._setting.n)
                end = np.maximum(self._after(first, ready, t), self._after(second, ready, t))
                return np.maximum(end, ready + self._work)
        raise TypeError(f"{phase} is no phase of a step in common")

    def _late(
        self, phase: phases.Every, late: phases.Late, ready: NDArray[np.float64], t: int
    ) -> NDArray[np.float64]:
        """Wait for an average that has been under way, and begin one."""
        if phase.due(t):
            cost = self._sent_mean(late.phase)
            ready = np.maximum(ready + cost.handling, self._left.pop(t) + cost.seconds)
        if phase.due(t + late.steps):
            self._left[t + late.steps] = float(ready.max())
        return ready

    def _sent_mean(self, mean: phases.Mean) -> Cost:
        """What an average costs, which is counted."""
        cost = self._mean(mean.rows * self._setting.row_bytes + NUMBER * mean.numbers)
        self.sent += cost.sent
        self._work = self._work + cost.handling
        return cost

    def _arrived(self, edges: Edges, ready: NDArray[np.float64], t: int) -> NDArray[np.float64]:
        self.sent += edges.sent
        if edges.handling is not None:
            self._work = self._work + edges.handling
        return edges.arrive(ready, edges.late(self._setting.seed, t))

    def _mixed_by_hosts(
        self, rows: float, numbers: int, ready: NDArray[np.float64], t: int
    ) -> NDArray[np.float64]:
        setting, m = self._setting, rows * self._setting.row_bytes + NUMBER * numbers
        if m not in self._hosts:
            self._hosts[m] = hosts(setting.mixing, m, setting.network)
        end, work, sent = self._hosts[m].arrive(ready, setting.seed, t)
        self._work = self._work + work
        self.sent += sent
        return end

    def _exchange(self, rows: float) -> Remembered:
        """Messages of all to all."""
        if rows not in self._all:
            setting = self._setting
            everybody = average(setting.n)
            m = rows * setting.row_bytes
            self._all[rows] = Remembered(lambda t: everybody, m, setting.network)
        return self._all[rows]

    def _partners(self, rows: float) -> Remembered:
        """Messages between the two of each pair."""
        if rows not in self._pairs:
            setting = self._setting
            drawn = matching(setting.n, seed=setting.seed).matrix
            self._pairs[rows] = Remembered(drawn, rows * setting.row_bytes, setting.network)
        return self._pairs[rows]

    def _mix(self, rows: float, numbers: int) -> Remembered:
        setting, m = self._setting, rows * self._setting.row_bytes + NUMBER * numbers
        if m not in self._edges:
            self._edges[m] = Remembered(setting.mixing, m, setting.network)
        return self._edges[m]

    def _mean(self, m: float) -> Cost:
        setting = self._setting
        if m not in self._means:
            self._means[m] = all_reduce(setting.all_reduce, setting.n, m, setting.network)
        return self._means[m]
