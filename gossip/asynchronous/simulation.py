"""AD-PSGD in one process and in simulated time: an event queue of finishing gradients."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gossip.asynchronous.events import Events
from gossip.asynchronous.learners import Learners
from gossip.asynchronous.partners import partner
from gossip.study import Study

AWAY = "in_flight/"
"""Before the names, in a snapshot, of what belongs to gradients that are being computed."""


class Simulation:
    r"""AD-PSGD as a sequence of events, the same for the same seeds.

    The k-th gradient of learner i takes c sigma_i(k) seconds, sigma the straggler's factor. When
    it is finished, the learner averages with a neighbour's present weights, adds the increment
    and takes its next snapshot, all in no time; of learners that finish at once the first comes
    first. A gradient is computed when it is applied, at the weights it was begun at.
    """

    def __init__(self, study: Study, learners: Learners) -> None:
        self._study, self._learners = study, learners
        self._seconds = study.config.reliability.straggler_seconds or 1.0
        self._snapshots = learners.x.clone()
        self._stale = torch.zeros(len(learners.x), dtype=torch.int64)
        self._events = self._all_begin()

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def advance(self, total: int) -> int:
        """Go on until `total` gradients have been applied by all; gives how many there are."""
        counts = self._learners.tally["gradients"]
        done = int(counts.sum())
        for _ in range(done, total):
            self._event()
        return max(done, total)

    def values(self) -> dict[str, float]:
        """What the simulation adds to the trace."""
        return {"simulated_seconds": self._events.now}

    def rows(self) -> dict[str, Tensor]:
        """What a snapshot holds of the gradients under way."""
        finish = torch.from_numpy(self._events.finish.copy())
        now = torch.full_like(finish, self._events.now)
        parts = {"x": self._snapshots, "staleness": self._stale, "finish": finish, "now": now}
        return {AWAY + name: part for name, part in parts.items()}

    def restore(self, rows: Mapping[str, Tensor]) -> None:
        """Go on from `rows()`, the learners already restored; without any, begin gradients anew.

        Raises:
            KeyError, RuntimeError: something is missing or of another shape.
        """
        if AWAY + "x" in rows:
            self._snapshots.copy_(rows[AWAY + "x"])
            self._stale.copy_(rows[AWAY + "staleness"])
            finish = torch.zeros(len(self._stale), dtype=torch.float64)
            finish.copy_(rows[AWAY + "finish"])
            self._events = Events(finish.tolist(), float(rows[AWAY + "now"][0]))
        else:  # from MPI, where none was under way
            self._snapshots.copy_(self._learners.x)
            self._events = self._all_begin()

    def _event(self) -> None:
        """The next gradient that is finished: average, apply, begin another one."""
        learners, algorithm = self._learners, self._learners.algorithm
        i = self._events.next()
        snapshot = self._snapshots[i : i + 1].clone()
        j = partner(self._study, i, learners.done(i))
        stepped = learners.step(i, snapshot)
        with learners.clock("optimizer"):
            if j is not None:
                self._average(i, j)
            row = learners.x[i : i + 1]
            row.copy_(algorithm.moved(row, snapshot, stepped))
            learners.applied(i, int(self._stale[i]))
            self._stale[i] = 0
            self._snapshots[i] = row[0]
        self._events.begin(i, self._duration(i))

    def _average(self, i: int, j: int) -> None:
        x, tally = self._learners.x, self._learners.tally
        x[i] = x[j] = self._learners.algorithm.averaged(x[i], x[j])
        for k in (i, j):
            self._stale[k] += 1
            tally["messages"][k] += 1

    def _duration(self, i: int) -> float:
        straggler = self._study.straggler
        factor = 1.0 if straggler is None else straggler.factor(i, self._learners.done(i))
        return self._seconds * factor

    def _all_begin(self) -> Events:
        return Events(self._duration(i) for i in range(len(self._stale)))
