"""AD-PSGD over MPI with one learner per process, in real time."""

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor

from gossip.asynchronous.counter import PAUSE, Counter
from gossip.asynchronous.learners import Learners
from gossip.asynchronous.pairwise import PairwiseRow
from gossip.asynchronous.partners import partner
from gossip.comm.shutdown.overdue import Waiting
from gossip.study import Study

PATIENCE_SECONDS, PATIENCE_GRADIENTS = 0.05, 10
"""How long a learner waits for its neighbour's answer, whichever is longer; then it goes on, and
takes the answer in when it comes."""


class Processes:
    """AD-PSGD between pauses: nobody waits for the slow.

    A pause begins when the learners have together applied a given number of gradients: each of
    them enters it after the gradient that it is computing. So up to n - 1 more are applied, and
    in a pause, but nowhere else, the fast ones wait for the slowest gradient.

    A neighbour that waits for an answer itself may refuse, so there is one averaging at most for
    each gradient of a learner: fewer, the shorter gradients are beside a message.

    Raises:
        UserError: as `PairwiseRow`.
    """

    def __init__(self, study: Study, learners: Learners, pause_wanted: Callable[[], bool]) -> None:
        self._waiting: Waiting = cast(Any, study.comm).waiting
        self._study, self._learners, self._pause_wanted = study, learners, pause_wanted
        # The weights themselves, or the host's copy of those of a GPU.
        self._row = learners.x.cpu()
        with self._waiting("all processes to begin"):
            self._exchange = PairwiseRow(self._row)
            self._counter = Counter()
        self._total = 0
        self._patience = PATIENCE_SECONDS
        self._sent_before = 0

    def __enter__(self) -> "Processes":
        self._recount()
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        self._exchange.close()
        if kind is None:
            with self._waiting("all processes to end"):
                self._counter.free()

    def advance(self, total: int) -> int:
        """Go on until `total` gradients have been applied by all, or some process wants a pause.

        Collective; gives how many there are.
        """
        if self._total < total:
            self._exchange.resume()
            self._go(total)
            with self._learners.clock("communication_wait"), self._waiting("a pause of all"):
                self._exchange.pause()
            self._learners.x.copy_(self._row)
            self._recount()
        return self._total

    def values(self) -> dict[str, float]:
        """What this adds to the trace: nothing, `seconds` being real."""
        return {}

    def rows(self) -> dict[str, Tensor]:
        """What a snapshot holds of gradients under way: in a pause there are none."""
        return {}

    def restore(self, rows: Mapping[str, Tensor]) -> None:
        """Gradients that a simulation had under way are begun anew."""

    def _go(self, total: int) -> None:
        """Gradient after gradient, at least one, until a pause is due."""
        while True:
            self._gradient()
            if self._count(1) >= total:
                return
            if self._pause_wanted() or self._learners.failed:
                self._count(PAUSE)
                return

    def _count(self, amount: int) -> int:
        """The counter with this amount added; from another host, process 0 has to be awake."""
        with self._waiting("the count of gradients (process 0)"):
            return self._counter.add(amount)

    def _gradient(self) -> None:
        """One gradient, with an averaging while it is computed."""
        learners, exchange, k = self._learners, self._exchange, self._learners.done(0)
        start = time.monotonic()
        other = partner(self._study, learners.hosted[0], k)
        snapshot, changes = exchange.begin(other, self._patience)
        own = snapshot.to(learners.x.device)
        stepped = learners.step(0, own, self._study.delay(k)).to(snapshot.device)
        gradient_seconds = time.monotonic() - start
        self._patience = max(PATIENCE_SECONDS, PATIENCE_GRADIENTS * gradient_seconds)
        with learners.clock("communication_wait"):
            exchange.settle()
        with learners.clock("optimizer"):
            move = learners.algorithm.moved
            before = exchange.change(lambda row: move(row, snapshot, stepped))
            learners.applied(0, before - changes)

    def _recount(self) -> None:
        """What all have done together, with no pause wanted. Collective."""
        tally = self._learners.tally
        tally["messages"] += self._exchange.sent - self._sent_before
        self._sent_before = self._exchange.sent
        everyone = self._study.comm.gather(tally["gradients"].reshape(1))
        self._total = int(everyone.sum())
        with self._waiting("all processes in a pause"):
            self._counter.set(self._total)
