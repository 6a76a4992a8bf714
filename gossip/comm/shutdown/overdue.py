"""The time-out of a message: names the edge, the late process and all stacks, and ends the job."""

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gossip.comm.shutdown.position import Position

STACKS_SIGNAL = signal.SIGUSR2
"""Makes a process write down the stack of its main thread, even while it is stuck in C.

Not of its other threads: the signal's handler would read their frames while they change. A process
that dies of that gives the job its own exit code, in 2 of 77 jobs on Open MPI."""
STACKS_SECONDS = 1.0
"""How long the processes get for that; a stopped one never does it."""
LEFT_SECONDS = 10.0
"""Grace period after a peer has exited, in which its last messages may still arrive."""
TICKS = 10
"""Looks per time-out ..."""
LONGEST_TICK_SECONDS = 1.0
"""... and at least one in so many seconds."""


class Wait:
    """One wait, for a collective call or for several messages in turn."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what
        """What has not come yet, as in "has waited 600 s for ..."."""


class Waiting:
    """What this process waits for now, if it does: written by its communicator."""

    def __init__(self) -> None:
        self.now: Wait | None = None

    @contextmanager
    def __call__(self, what: str) -> Iterator[Wait]:
        """Around a call that comes back only when others have done their part."""
        outer, self.now = self.now, Wait(what)
        try:
            yield self.now
        finally:
            self.now = outer


@contextmanager
def watched(
    waiting: Waiting,
    timeout: float,
    left: Callable[[], bool],
    waits: Callable[[bool], None],
    end: Callable[[str, float], None],
) -> Iterator[None]:
    """In this block a thread looks whether a wait is overdue.

    Args:
        waiting: what the process waits for.
        timeout: seconds, above 0.
        left: whether another process has ended without a part in what this one waits for; from
            then on LEFT_SECONDS are enough.
        waits: told at every look whether the process waits.
        end: called once, in the thread, with what is overdue and the seconds waited.
    """
    closed = threading.Event()

    def look() -> None:
        tick = min(timeout / TICKS, LONGEST_TICK_SECONDS)
        seen, waited, alone, last = None, 0.0, 0.0, time.monotonic()
        while not closed.wait(tick):
            now, wait = time.monotonic(), waiting.now
            # A process that was stopped itself has not waited, whatever the clock says.
            awake = min(now - last, 2 * tick)
            waited = waited + awake if wait is not None and wait is seen else 0.0
            # From when the other one has ended: those who come out of a collective may leave at
            # once, however long all have been in it.
            alone = alone + awake if waited and left() else 0.0
            seen, last = wait, now
            waits(wait is not None)
            if wait is not None and (waited >= timeout or alone >= LEFT_SECONDS):
                end(wait.what, waited)
                return

    thread = threading.Thread(target=look, name="overdue", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()


@contextmanager
def stacks_on_signal(file: Path) -> Iterator[None]:
    """In this block STACKS_SIGNAL makes this process write its stack to the end of `file`."""
    with file.open("a", encoding="utf-8") as open_file:
        faulthandler.register(STACKS_SIGNAL, file=open_file, all_threads=False)
        try:
            yield
        finally:
            faulthandler.unregister(STACKS_SIGNAL)


@dataclass(frozen=True)
class Local:
    """A process of this host, as each of them sees it."""

    pid: int
    name: str
    position: Position
    stacks: Path
    """Where it writes its stacks."""

    @property
    def waits(self) -> bool:
        """Whether it waits for others."""
        return self.position.waits

    @property
    def stopped(self) -> bool:
        """Whether a signal such as SIGSTOP keeps it from running; only Linux tells."""
        with suppress(OSError):
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
            return stat.rpartition(")")[2].split()[0] in "Tt"
        return False


def left_behind(me: Local, here: Sequence[Local]) -> Local | None:
    """A process that has ended as it should and has not come further than this one.

    What it has had no part in will not come: not the rows of a step that it has not begun, nor a
    collective that others are still in, as nobody comes out of one that somebody has not entered.
    Of one that has left itself nobody knows what else it does with those that have.
    """
    if me.position.left:
        return None
    step = me.position.step
    return next((p for p in here if p.position.left and p.position.step <= step), None)


def message(me: Local, here: Sequence[Local], what: str, seconds: float) -> str:
    """'learner 3 (process 3 on host H) has waited 600 s at step 512 for ...: ...'.

    Args:
        me: who waits.
        here: all processes of this host; nothing is known of those of another.
        what: what has not come.
        seconds: how long it has been waited for.
    """
    waited = f"{me.name} has waited {seconds:.3g} s at step {me.position.step} for {what}"
    gone = left_behind(me, here)
    if gone is not None:
        return f"{waited}: {gone.name} has ended at {gone.position}, without that"
    # At the same step, the one that does not wait lets the others wait.
    last = min(here, key=lambda p: (p.position.left, p.position.step, not p.stopped, p.waits))
    state = " (stopped)" if last.stopped else ", waiting, too" if last.waits else ""
    behind = f"furthest behind is {last.name} at {last.position}{state}"
    if (other := _in_another_call(me, last, here)) is not None:
        calls = f"{me.name} is in {me.position.phase}, {other.name} in {other.position.phase}"
        same = f"{calls}, but all have to make the same calls in the same order"
        return f"{waited}: {same}" if last is me else f"{waited}: {behind}; {same}"
    return f"{waited}: {'no process of this host is further behind' if last is me else behind}"


def _in_another_call(me: Local, last: Local, here: Sequence[Local]) -> Local | None:
    """One that waits in another call than this process, if nobody lets them wait."""
    if not (last is me or last.waits):
        return None
    others = [last, *(p for p in here if p.waits and not p.position.left)]
    return next((p for p in others if p.position.phase != me.position.phase), None)


def stacks_of(here: Sequence[Local]) -> str:
    """The Python stacks of these processes of this host, as they are now."""
    headings = [f"{process.name} at {process.position}, pid {process.pid}" for process in here]
    for process in here:
        if process.pid == os.getpid():
            # Not by the signal: its handler reads the frames of this thread while they change.
            with process.stacks.open("a", encoding="utf-8") as file:
                faulthandler.dump_traceback(file, all_threads=True)
        elif not process.position.left:  # it would be killed by the signal
            with suppress(ProcessLookupError):
                os.kill(process.pid, STACKS_SIGNAL)
    time.sleep(STACKS_SECONDS)
    texts = (_written(process.stacks) for process in here)
    return "\n".join(f"{head}:\n{text}" for head, text in zip(headings, texts, strict=True))


def _written(file: Path) -> str:
    text = ""
    with suppress(OSError):
        text = file.read_text(encoding="utf-8", errors="replace")
    return text or "no stacks: it is stopped, or has ended\n"
