"""Failure of one process of a user's own script ends the whole job, with one message."""

import atexit
import multiprocessing
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gossip.comm.shutdown.failure import RELAY_SECONDS, SPEAKER_SECONDS, Host
from gossip.comm.shutdown.position import Position
from gossip.comm.startup import asked
from gossip.comm.startup.environment import CutOffError, speaks
from gossip.comm.startup.inherited import flush, say
from gossip.comm.startup.launchers import launched
from gossip.comm.startup.rendezvous import end_job
from gossip.errors import UserError

if TYPE_CHECKING:
    from gossip.comm.base import Communicator

INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C."""


class Guard:
    """The exception hook of a process that was started together with others.

    Python's own hook would only end this process: the others would wait for it for ever.
    """

    def __init__(self) -> None:
        self._before = sys.excepthook
        self._waits = ExitStack()
        self._host: Host | None = None
        self._comm: Any = None

    def join(self, comm: "Communicator", position: Position, timeout: float) -> None:
        """Know the other processes from now on, and end the job when they are overdue. Collective.

        Args:
            comm: of several processes, with what `failure.ending_the_job` asks for.
            position: kept up to date for the message of a process that fails.
            timeout: seconds that a process may wait for others; 0: for ever.
        """
        if self._host is not None:
            return
        host = Host(comm, position, None)
        host.join()
        if timeout > 0:
            self._waits.enter_context(host.no_endless_wait(timeout, lambda: None))
        self._host, self._comm = host, comm
        atexit.register(self.close)
        if multiprocessing.parent_process() is not None:  # one that is forked has no atexit
            Finalize(None, self.close, exitpriority=0)

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Tell what has happened and end the job; comes back if all processes made one mistake."""
        if self._host is None:
            self._end_unconnected(kind, error, trace)
        elif isinstance(error, KeyboardInterrupt):
            for signum in (signal.SIGINT, asked.REQUEST):  # a terminal's comes twice, by mpirun too
                signal.signal(signum, signal.SIG_IGN)
            self._host.announce_stop(signal.SIGINT)
            time.sleep(RELAY_SECONDS)
            self._comm.abort(INTERRUPTED)
        else:
            self._host.end(error)
            if speaks():
                say(f"{Path(sys.argv[0]).name}: {error}")

    def _end_unconnected(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """End the job by what started it, where the others are waiting, or will be."""
        interrupted = isinstance(error, KeyboardInterrupt)
        mistake = isinstance(error, UserError) and not isinstance(error, CutOffError)
        text = f"{Path(sys.argv[0]).name}: {'ended at once by Ctrl-C' if interrupted else error}"
        if not (interrupted or mistake):
            self._before(kind, error, trace)
        elif speaks():
            say(text)
        flush()
        if (interrupted or mistake) and not speaks():
            time.sleep(SPEAKER_SECONDS)  # the first process says it, if it is one of all
            say(text)
        time.sleep(RELAY_SECONDS)
        with suppress(UserError):  # no MPI: whoever started this process has to end the others
            code = INTERRUPTED if interrupted else 2 if isinstance(error, UserError) else 1
            end_job(code)
            os._exit(code)  # MPICH's Abort comes back, and the kill follows

    def close(self) -> None:
        """The process ends as it should."""
        self._waits.close()
        self.leave()

    def leave(self) -> None:
        """There are no more steps; what the process may yet wait for has its time-out."""
        if self._host is not None:
            self._host.leave()


_guard: Guard | None = None


def install() -> None:
    """Put the hook in place, where several processes were started; the launcher's Ctrl-C is one.

    Raises:
        KeyboardInterrupt: it has come already.
    """
    global _guard
    how = launched()
    if _guard is None and how is not None and how.size > 1:
        _guard = sys.excepthook = Guard()
    asked.interrupt()


def leave() -> None:
    """See `Guard.leave`; nothing to do for a process alone."""
    if _guard is not None:
        _guard.leave()


def join(comm: "Communicator", position: Position, timeout: float) -> None:
    """See `Guard.join`; nothing to do for a process alone."""
    if _guard is not None and comm.processes > 1:
        _guard.join(comm, position, timeout)
