"""The launcher's request to stop, which may come before anybody listens for it.

`gossip.launch` asks by REQUEST. Until a handler is there the system ends the process on it, and
MPI's start puts a handler of its own in place of Python's, so that the request would be lost.
"""

import os
import signal
import threading
from types import FrameType

from gossip.comm.startup.launchers import child_of

REQUEST = signal.SIGUSR1
"""How `gossip.launch` asks the processes of its job to stop: no MPI adds a kill to it."""
LAUNCHER = "GOSSIP_LAUNCHER"
"""Set by `gossip.launch` for its processes: to them the signal means this, whoever else uses it."""

_noted = False


def expect() -> None:
    """Hear the request from now on, and note it until somebody listens: at first, and after MPI.

    Does nothing in a process that `gossip.launch` has not started, nor to a handler of the user's
    own but to put it in place again.
    """
    if not _is_ours():
        return
    handler = signal.getsignal(REQUEST)
    if handler is not None:
        signal.signal(REQUEST, _note if handler is signal.SIG_DFL else handler)


def interrupt() -> None:
    """From now on the request is a KeyboardInterrupt, as Ctrl-C: one that came before, now.

    Raises:
        KeyboardInterrupt: there was one.
    """
    if _is_ours() and signal.getsignal(REQUEST) in (signal.SIG_DFL, _note):
        signal.signal(REQUEST, signal.default_int_handler)
        if taken():
            raise KeyboardInterrupt


def taken() -> bool:
    """Whether the request has come before anybody listened; told once."""
    global _noted
    noted, _noted = _noted, False
    return noted


def _is_ours() -> bool:
    """Whether the signal is the launcher's, and this thread may say what comes of it."""
    here = threading.current_thread() is threading.main_thread()
    return here and LAUNCHER in os.environ and child_of() is None


def _note(_signum: int, _frame: FrameType | None) -> None:
    global _noted
    _noted = True
