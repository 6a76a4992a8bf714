"""What a process has from whoever started it: open files, perhaps closed, and ignored signals."""

import os
import signal
import sys
from contextlib import suppress


def open_standard_files() -> None:
    """Put /dev/null where stdin, stdout or stderr is closed (`2>&-`).

    The next file that is opened would get that number: what MPI, torch or a child process says on
    stderr would be written into it, a checkpoint for instance.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)  # for child processes as well
            if null != number:
                os.close(null)
            else:
                os.set_inheritable(number, True)


def say(text: str) -> None:
    """Print a line on stderr if that is possible, and leave nothing to fail at Python's end."""
    with suppress(OSError, ValueError):
        if sys.stderr is not sys.__stderr__:
            print(text, file=sys.stderr, flush=True)
        elif sys.stderr is not None:  # it was closed when Python started
            os.write(2, f"{text}\n".encode(errors="replace"))


def flush() -> None:
    """Let out what has been printed, if anybody takes it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # gone, closed, none
            stream.flush()


def heard(*signals: signal.Signals) -> list[signal.Signals]:
    """Those that were not ignored when we started: `nohup` and `command &` mean them to be."""
    return [signum for signum in signals if signal.getsignal(signum) is not signal.SIG_IGN]
