"""Signals that ask a run to stop, and how all processes stop at the same step."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gossip.comm.base import Communicator


INTERRUPTS = (signal.SIGINT, signal.SIGUSR1)
"""Ctrl-C; under `gossip.launch` it arrives as SIGUSR1, which no MPI adds a kill to."""
ASK_SECONDS = 0.3
"""How often the processes ask each other; in steps, by the slowest process's pace."""
TERM_SECONDS = 6.0
"""How long after SIGTERM a process may take to finish its step and close the run."""
SPEAK_LATER_SECONDS = 0.1
"""Process 0 speaks for all; another one does if it alone got the signal."""


class GoingOn(Exception):  # noqa: N818 - nothing has failed that matters
    """Raised on all processes that are left where the job goes on with them alone."""


class Wish(NamedTuple):
    """What a process tells the others when they talk about how to go on."""

    keep: bool = False
    """It is time for a checkpoint."""
    failure: tuple[int, str] | None = None
    """What ends the run: the step, and a sentence. Wished at every step until it is heard."""


class Answer(NamedTuple):
    """What came of such a talk, the same on all processes."""

    stop: bool
    """The step just done is the last."""
    wishes: "list[Wish]"
    """Of all processes; none where they did not talk at this step."""

    @property
    def keep(self) -> bool:
        """Whether somebody wants a checkpoint."""
        return any(wish.keep for wish in self.wishes)

    @property
    def failure(self) -> tuple[int, str] | None:
        """Why the run ends: the first step, in the words of the process that knows most."""
        told = [wish.failure for wish in self.wishes if wish.failure]
        return min(told, key=lambda each: (each[0], -len(each[1])), default=None)


NOTHING = Wish()


class Stop:
    """Whether the run should stop.

    A signal only sets `requested`; the loop asks `agreed(step)` at every step and leaves when
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

    def agreed(self, step: int, wish: Wish = NOTHING) -> Answer:
        """Whether all processes stop at this step. Collective: call it at every step.

        Processes talk only every ASK_SECONDS or so; the step of the next talk follows from
        what all have said, so it is the same for all. The steps of several runs after each
        other may each begin at 0.
        """
        if self._comm.processes == 1:
            self._agreed = self.requested
            return Answer(bool(self._agreed), [wish])
        if self._last is not None and step <= self._last[0]:
            self._next_step = self._last = None  # another run has begun, at a pace of its own
        if self._next_step is not None and step < self._next_step:
            return Answer(False, [])
        now = time.monotonic()
        pace = None
        if self._last is not None and step > self._last[0]:
            pace = (now - self._last[1]) / (step - self._last[0])
        answers = self._comm.share((self.requested, pace, *wish))
        self._last = (step, now)
        paces = [answer[1] for answer in answers if answer[1] is not None]
        self._next_step = step + (max(1, int(ASK_SECONDS / max(*paces, 1e-6))) if paces else 1)
        self._agreed = max(answer[0] for answer in answers)
        return Answer(bool(self._agreed), [Wish(*answer[2:]) for answer in answers])

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear SIGINT, SIGTERM and SIGUSR1 even while the main thread waits inside MPI."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may have handlers, e.g. not in a notebook's thread
            return
        ear, mouth = os.pipe()
        os.set_blocking(mouth, False)
        signals = (*INTERRUPTS, signal.SIGTERM)
        before = {signum: signal.signal(signum, self._handle) for signum in signals}
        wakeup_before = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
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
                self._last_words()  # Open MPI kills a quarter of a second from now

    def _speak(self, signum: int) -> None:
        if self._comm.process > 0:
            time.sleep(SPEAK_LATER_SECONDS)
        self._announce(signum)

    def _give_up(self) -> None:
        self._last_words()
        os._exit(128 + signal.SIGTERM)
