"""The lock on a run folder: one run in it at a time."""

import errno
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gossip.errors import UserError

FILE = ".lock"
"""In the run folder, for as long as a run writes there."""

_MOST_BYTES = 4096
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN)


@contextmanager
def locked(folder: Path, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Keep other runs out of `folder` for as long as the context lasts.

    The kernel holds the lock for an open file, so it ends with the process, however that ends; a
    file that a killed run left behind locks nothing.

    Args:
        folder: the run folder; it exists.
        say: gets a note where the file system has no locks; the run then goes on without one.

    Raises:
        UserError: another run holds it, or the folder cannot be written to.
    """
    path = folder / FILE
    lock = _taken(path, say)
    try:
        _write(lock)
        yield
    finally:
        # Before it is let go of, or it may be the next run's. Gone already: so is the folder; and
        # where that has been made anew, it is another run's.
        with suppress(OSError):
            if _is_at(lock, path):
                path.unlink()
        os.close(lock)


def _taken(path: Path, say: Callable[[str], None]) -> int:
    """Descriptor of the open and locked file at `path`."""
    while True:
        lock = _opened(path)
        try:
            _lock(lock, path, say)
            if _is_at(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        # The run that ended just now removed the file between our opening and our locking it.
        os.close(lock)


def _opened(path: Path) -> int:
    # A folder may come from anybody: no link to another file is followed, no pipe waited for.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        lock = os.open(path, flags, 0o644)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(lock).st_mode):
        return lock
    os.close(lock)
    raise UserError(f"cannot write {path}: it is not a file: remove it")


def _lock(lock: int, path: Path, say: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise UserError(
                f"run folder {path.parent} is in use{_holder(lock)}: wait for that run to end, "
                "stop it, or choose another --out"
            ) from error
        say(
            f"no lock on {path.parent} ({error.strerror}): nothing keeps a second run from "
            "writing there"
        )


def _is_at(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except FileNotFoundError:
        return False


def _write(lock: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    # The text is for people; a full disk will be noticed where it matters.
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, (json.dumps(holder) + "\n").encode(), 0)


def _holder(lock: int) -> str:
    """Who wrote the text in the file; nothing if it cannot be told."""
    try:
        holder = json.loads(os.pread(lock, _MOST_BYTES, 0))
        host, pid, since = holder["host"], int(holder["pid"]), holder["since"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f" by process {pid} on {host} since {since}"
