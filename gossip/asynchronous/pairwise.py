"""Pairwise averaging over MPI at any moment: one process asks, a thread of the other answers."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

from gossip.comm.transports.mpi import as_buffer
from gossip.errors import UserError

ASK, ANSWER = 1, 2
"""Tags of messages."""
SHORTEST_SECONDS, LONGEST_SECONDS = 5e-5, 1e-3
"""Sleeps between two looks for a message: the longer nothing comes, the longer. Who spins takes
the core from those that compute."""

Arriving = tuple[MPI.Request, int, Tensor]
"""A row under way to us, who sends it, and where it will be."""
Leaving = tuple[MPI.Request, object]
"""A message under way from us, and its memory."""


@dataclass(frozen=True)
class Asked:
    """An averaging that this process has begun."""

    process: int
    answer: MPI.Request
    question: Leaving
    until: float
    """Until when (time.monotonic) it is waited for."""


class PairwiseRow:
    r"""A row of weights per process, averaged by pairs; nobody waits for anybody's lock.

    Process i sends its row w_i to j; a thread of j takes d = (w_j - w_i)/2 from its own row and
    sends d back; a thread of i adds it to w_i. A process that waits for an answer itself does not
    average with others, so that its row is still the one it has sent: it refuses a lower process,
    and answers a higher one afterwards. As not everybody in a circle is lower than the next, no
    circle of processes waits for each other.

    What is atomic: each change of a row, under a lock of its process that is held for the
    arithmetic alone, never while a message is waited for. An averaging is exact, both rows being
    equal afterwards, but for updates that `change` makes in between, which are not averaged, and
    for answers that are late: who has waited in vain for long enough averages with others again
    and adds the difference when it comes. The sum of all rows and of the differences under way is
    always the same.

    Args:
        row: this process's weights, [1, d], contiguous, on the CPU; written in place.
        comm: whose processes; a duplicate of it is used, which lives as long as the process. So
            this is made by all together.

    Raises:
        UserError: this MPI cannot be called by two threads at once.
    """

    def __init__(self, row: Tensor, comm: MPI.Intracomm | None = None) -> None:
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise UserError(
                "ad-psgd answers its neighbours in a second thread, which this MPI does not "
                "allow (it gave less than MPI_THREAD_MULTIPLE): use another MPI, or dpsgd"
            )
        assert row.is_contiguous(), "the row must be contiguous"
        self._row, self._comm = row, (comm or MPI.COMM_WORLD).Dup()
        self._lock = threading.Lock()
        self.changes = 0
        """Averagings and updates of the row so far."""
        self.sent = 0
        """Rows sent so far."""
        self._asked: Asked | None = None
        self._difference = torch.empty_like(row)
        self._settled, self._open, self._ended = (threading.Event() for _ in range(3))
        self._settled.set()
        self._looking = threading.Lock()
        self._failure: BaseException | None = None
        self._arriving: list[Arriving] = []
        self._leaving: list[Leaving] = []
        self._thread = threading.Thread(target=self._serve, name="pairwise", daemon=True)
        self._thread.start()

    def begin(self, process: int | None, patience: float) -> tuple[Tensor, int]:
        """Begin to average with another process, unless an earlier request has no answer yet.

        Args:
            process: the other one; None: average with nobody.
            patience: seconds that `settle` waits for the answer.

        Returns:
            The row as it is now, a copy [1, d] not to be written to, and `changes`.
        """
        with self._lock:
            row = self._row.clone()
            if process is not None and self._asked is None:
                self._settled.clear()
                into = [as_buffer(self._difference), MPI.BYTE]
                answer = self._comm.Irecv(into, source=process, tag=ANSWER)
                question = self._send(row, process, ASK)
                self._asked = Asked(process, answer, question, time.monotonic() + patience)
            return row, self.changes

    def settle(self) -> bool:
        """Wait for the answer, at most as long as `begin` said; whether none is missing."""
        asked = self._asked
        settled = asked is None or self._settled.wait(max(0.0, asked.until - time.monotonic()))
        self._raise()
        return settled

    def change(self, function: Callable[[Tensor], Tensor]) -> int:
        """Replace the row by a function of it; gives `changes` before that."""
        with self._lock:
            self._row.copy_(function(self._row))
            self.changes += 1
            return self.changes - 1

    def resume(self) -> None:
        """Answer the others from now on, until `pause`."""
        self._open.set()

    def pause(self) -> None:
        """Wait until no message is under way anywhere, then stop answering. Collective."""
        self._settled.wait()
        barrier = self._comm.Ibarrier()  # who has arrived has its answer, and goes on answering
        self._wait(barrier.Test)
        self._open.clear()
        with self._looking:  # every message has been received: what we know of it is on its way
            self._wait(lambda: all(leaving[0].Test() for leaving in self._leaving))
            self._leaving.clear()
        self._raise()

    def close(self) -> None:
        """End the thread; what is under way, if anything, is lost."""
        self._ended.set()
        self._open.set()
        self._thread.join()

    def _wait(self, test: Callable[[], bool]) -> None:
        """Wait until `test` comes true, which others see to."""
        sleep = SHORTEST_SECONDS
        while not test():
            self._raise()
            time.sleep(sleep)
            sleep = min(2 * sleep, LONGEST_SECONDS)

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        """Runs in its own thread."""
        sleep = SHORTEST_SECONDS
        try:
            while not self._ended.is_set():
                self._open.wait()
                with self._looking:
                    some = self._open.is_set() and self._look()
                if some or self._asked is not None:
                    sleep = SHORTEST_SECONDS
                else:
                    sleep = min(2 * sleep, LONGEST_SECONDS)
                time.sleep(sleep)
        except BaseException as error:  # the main thread raises it
            self._failure = error
            self._settled.set()

    def _look(self) -> bool:
        """Receive and answer what has come; whether anything is under way to us.

        Nothing is waited for: who sends a long row may be stopped in the middle of it.
        """
        while (message := self._comm.Improbe(tag=ASK, status=(origin := MPI.Status()))) is not None:
            row = torch.empty_like(self._row)
            into = [as_buffer(row), MPI.BYTE]
            self._arriving.append((message.Irecv(into), origin.Get_source(), row))
        self._leaving = [leaving for leaving in self._leaving if not leaving[0].Test()]
        asked, status = self._asked, MPI.Status()
        here = asked is not None and asked.answer.Test(status)
        some = here or bool(self._arriving)
        with self._lock:
            if here and asked is not None:
                self._take(asked, refused=status.Get_count(MPI.BYTE) == 0)
            # In the same breath: who has waited for us must not wait for our next request, too.
            self._arriving = [each for each in self._arriving if not self._answered(*each)]
            if here:
                self._settled.set()
        return some

    def _take(self, asked: Asked, *, refused: bool) -> None:
        """Take in the answer that has come."""
        self._leaving.append(asked.question)
        self._asked = None
        if not refused:
            self._row += self._difference
            self.changes += 1

    def _answered(self, arrival: MPI.Request, source: int, theirs: Tensor) -> bool:
        """Average with another process's row [1, d], or refuse; False: not yet."""
        if not arrival.Test():
            return False
        asked = self._asked
        if asked is not None and time.monotonic() < asked.until:
            if source > self._comm.rank:
                return False
            nothing = np.empty(0, np.uint8)
            refusal = self._comm.Isend([nothing, MPI.BYTE], dest=source, tag=ANSWER)
            self._leaving.append((refusal, nothing))
            return True
        difference = (self._row - theirs) / 2
        self._row -= difference
        self.changes += 1
        self._leaving.append(self._send(difference, source, ANSWER))
        return True

    def _send(self, row: Tensor, process: int, tag: int) -> Leaving:
        self.sent += 1
        return self._comm.Isend([as_buffer(row), MPI.BYTE], dest=process, tag=tag), row
