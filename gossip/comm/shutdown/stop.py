"""Signals that ask a run to stop, and the agreement of all processes to stop at one step."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from gossip.comm.startup import asked
from gossip.comm.startup.inherited import heard, say

if TYPE_CHECKING:
    from gossip.comm.base import Communicator


INTERRUPTS = (signal.SIGINT, asked.REQUEST)
"""Ctrl-C; under `gossip.launch` it arrives as SIGUSR1, which no MPI adds a kill to."""
ASK_SECONDS = 0.3
"""How often the processes exchange their requests; in steps, by the slowest process's pace."""
TERM_SECONDS = 6.0
"""How long after SIGTERM a process may take to finish its step and close the run."""
SPEAK_LATER_SECONDS = 0.1
"""Process 0 speaks for all; another one does if it alone got the signal."""


class GoingOn(Exception):  # noqa: N818 - nothing has failed that matters
    """Raised on all processes that are left where the job goes on with them alone."""


class Request(NamedTuple):
    """What one process asks of all at the end of a step."""

    keep: bool = False
    """A checkpoint is due by the time that has passed."""
    failure: tuple[int, str] | None = None
    """What ends the run: the step, and a sentence. Asked at every step until it is decided."""


class Decision(NamedTuple):
    """What the processes have agreed on at the end of a step, the same on all of them."""

    stop: bool
    """The step just done is the last."""
    requests: "list[Request]"
    """Requests of all processes; none where they exchanged no message at this step."""

    @property
    def keep(self) -> bool:
        """Whether some process asks for a checkpoint."""
        return any(request.keep for request in self.requests)

    @property
    def failure(self) -> tuple[int, str] | None:
        """Why the run ends: the first step, in the words of the process that knows most."""
        told = [request.failure for request in self.requests if request.failure]
        return min(told, key=lambda each: (each[0], -len(each[1])), default=None)


NOTHING = Request()


class Stop:
    """Whether the run should stop.

    A signal only sets `requested`; the loop asks `decide(step)` at every step and leaves when
    it says so, which happens on all processes at the same step. A second Ctrl-C raises
    KeyboardInterrupt. After SIGTERM a process that has not stopped in TERM_SECONDS is ended.
    """

    def __init__(
        self,
        comm: "Communicator",
        announce: Callable[[int], None],
        last_words: Callable[[], None] | None,
    ) -> None:
        self.requested = 0  # written by the listening thread alone
        self._agreed = 0
        self._comm = comm
        self._announce = announce
        self._last_words = last_words or (lambda: None)
        self._interrupts = 0
        self._next_step: int | None = None
        self._last: tuple[int, float] | None = None
        self._timer: threading.Timer | None = None

    @property
    def exit_code(self) -> int:
        """0, or what the command exits with after the signal: 130 for Ctrl-C, 143 for SIGTERM."""
        if not self._agreed:
            return 0
        return 130 if self._agreed in INTERRUPTS else 128 + self._agreed

    @property
    def pending(self) -> bool:
        """Whether this process has been asked to stop."""
        return bool(self.requested)

    def decide(self, step: int, request: Request = NOTHING) -> Decision:
        """Whether all processes stop at this step. Collective: call it at every step.

        Processes exchange their requests only every ASK_SECONDS or so; the step of the next
        exchange follows from what all have said, so it is the same for all. The steps of several
        runs after each other may each begin at 0.
        """
        if self._comm.processes == 1:
            self._agreed = self.requested
            return Decision(bool(self._agreed), [request])
        if self._last is not None and step <= self._last[0]:
            self._next_step = self._last = None  # another run has begun, at a pace of its own
        if self._next_step is not None and step < self._next_step:
            return Decision(False, [])
        now = time.monotonic()
        pace = None
        if self._last is not None and step > self._last[0]:
            pace = (now - self._last[1]) / (step - self._last[0])
        answers = self._comm.share((self.requested, pace, *request))
        self._last = (step, now)
        paces = [answer[1] for answer in answers if answer[1] is not None]
        self._next_step = step + (max(1, int(ASK_SECONDS / max(*paces, 1e-6))) if paces else 1)
        self._agreed = max(answer[0] for answer in answers)
        return Decision(bool(self._agreed), [Request(*answer[2:]) for answer in answers])

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear SIGINT, SIGTERM and SIGUSR1 even while the main thread waits inside MPI.

        One that was ignored when we started stays so; a request that has come before is heard now.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may have handlers, e.g. not in a notebook's thread
            return
        ear, mouth = os.pipe()
        os.set_blocking(mouth, False)
        signals = heard(*INTERRUPTS, signal.SIGTERM)
        wakeup_before = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
        before = {signum: signal.signal(signum, self._handle) for signum in signals}
        if asked.taken():
            os.write(mouth, bytes([asked.REQUEST]))
        listener = threading.Thread(target=self._listen, args=(ear,), daemon=True)
        listener.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup_before)
            for signum, handler in before.items():
                signal.signal(signum, handler)
            os.write(mouth, b"\0")
            listener.join()
            os.close(ear)
            os.close(mouth)
            if self._timer:
                self._timer.cancel()

    def _handle(self, signum: int, _frame: object) -> None:
        """Runs in the main thread, when it is back in Python."""
        if signum == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt

    def _listen(self, ear: int) -> None:
        """Runs in its own thread; a zero byte ends it."""
        while signum := os.read(ear, 1)[0]:
            if signum not in (*INTERRUPTS, signal.SIGTERM):
                continue
            first, self.requested = not self.requested, self.requested or signum
            if signum == signal.SIGTERM and self._timer is None:
                self._timer = threading.Timer(TERM_SECONDS, self._give_up)
                self._timer.daemon = True
                self._timer.start()
            if first:
                self._speak(signum)
            if signum == signal.SIGTERM:
                self._say_last_words()  # Open MPI kills a quarter of a second from now

    def _speak(self, signum: int) -> None:
        if self._comm.process > 0:
            time.sleep(SPEAK_LATER_SECONDS)
        self._announce(signum)

    def _say_last_words(self) -> None:
        try:
            self._last_words()
        except Exception as error:  # a full or lost disk; this thread has more to do
            say(f"the run ends without last words: {error}")

    def _give_up(self) -> None:
        try:
            self._say_last_words()
        finally:
            os._exit(128 + signal.SIGTERM)
