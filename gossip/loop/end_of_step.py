"""The end of a step, the same in every loop: agree, write the trace's row, keep a checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gossip.checkpoint import Snapshot
from gossip.comm.base import Communicator
from gossip.comm.shutdown.stop import Decision, Request
from gossip.loop.nonfinite import weights_are_finite
from gossip.loop.outcome import TraceRows
from gossip.loop.run_state import Live
from gossip.study import Study

Record = Callable[[TraceRows], None]
"""Takes the trace's rows since the last call; called on every process."""


class Agreement(Protocol):
    """How all processes come to the same decision at the end of a step; see `Stop`."""

    @property
    def pending(self) -> bool:
        """Whether this process wants a decision soon, for instance because of a signal."""
        ...

    def decide(self, step: int, request: Request) -> Decision:
        """What follows from all processes' requests after `step`. Collective, at every step."""
        ...


@dataclass(frozen=True)
class Unstopped:
    """The agreement of a run that nobody stops: requests are exchanged at every step."""

    comm: Communicator
    pending: bool = False

    def decide(self, step: int, request: Request) -> Decision:
        """Exchange the requests, and go on."""
        return Decision(False, [Request(*other) for other in self.comm.share(list(request))])


class Keep(Protocol):
    """Where a loop leaves its checkpoints; called on every process."""

    def overdue(self) -> bool:
        """Whether this process wants a checkpoint because of the time that has passed."""
        ...

    def due(self, step: int) -> bool:
        """Whether there is one after `step` steps in any case: the same on all processes."""
        ...

    def save(self, snapshot: Snapshot) -> None:
        """Copy the snapshot and write it in the background."""
        ...


@dataclass(frozen=True)
class EndOfStep:
    """Ends the steps of one run.

    The trace of a run that is interrupted between two of its rows gets one more, after the
    checkpoint: that row is not in the checkpoint, so neither is it in the run that goes on.
    """

    study: Study
    live: Live
    agreement: Agreement
    record: Record
    keep: Keep | None

    def __call__(
        self,
        step: int,
        *,
        done: bool,
        row: bool,
        due: bool,
        observe: Callable[[], TraceRows],
        snapshot: Callable[[], Snapshot],
    ) -> bool:
        """End `step`; whether it was the run's last. Collective.

        Args:
            step: its number.
            done: the budget of steps is used up.
            row: the trace has a row after this step.
            due: a checkpoint is due by the number of steps.
            observe: gives the rows since the last call; collective.
            snapshot: the run as it is.
        """
        outcome, keep = self.live.outcome, self.keep
        overdue = keep is not None and keep.overdue()
        decision = self.agreement.decide(step, Request(overdue, self.live.failure))
        outcome.failure = self._failure(decision, last=done)
        outcome.interrupted = decision.stop and not done
        last = decision.stop or outcome.failure is not None or done
        if row:
            self.record(observe())
        if keep is not None and (due or decision.keep or last):
            with outcome.clock("checkpoint"):
                if weights_are_finite(self.study, self.live):
                    keep.save(snapshot())
        if not row and (outcome.interrupted or outcome.failure):
            self.record(observe())
        return last

    def _failure(self, decision: Decision, *, last: bool) -> tuple[int, str] | None:
        """What ends the run by a failure: asked of all before the run may end well. Collective."""
        if not (last and self.study.config.reliability.raises):
            return decision.failure
        asked = [Request(failure=failure) for failure in self.study.comm.share(self.live.failure)]
        return Decision(decision.stop, asked).failure
