"""Anonymous shared memory for the processes of a host."""

import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossip.comm.node import futex

PAGE = 4096

Memory = NDArray[np.uint8]


def shared_memory(
    num_bytes: int, node: Sequence[int], share: Callable[[Any], list[Any]]
) -> dict[int, Memory] | None:
    """So many bytes, all zero, of each process of a node; collective among all of the job.

    They are anonymous files, opened through /proc: they count as the job's memory, not as that of
    /dev/shm, of which a container has 64 MB, and nothing is left of a job that is killed.

    Args:
        num_bytes: of one process.
        node: processes that see the same memory, this one among them.
        share: gives every process's value; the collective.

    Returns:
        None, on all processes of the node, if one of them cannot: no memory left, or no /proc.
    """
    fd = _own_file(num_bytes)
    files = share(None if fd is None else (os.getpid(), fd))
    memories: dict[int, Memory] = {}
    with suppress(OSError):
        for process in node:
            if files[process] is not None:
                pid, file = files[process]
                memories[process] = _opened(pid, file, num_bytes)
    complete = share(len(memories) == len(node))
    if fd is not None:
        os.close(fd)
    return memories if all(complete[process] for process in node) else None


def _own_file(num_bytes: int) -> int | None:
    """An anonymous file whose memory is there now, not only when it is written to."""
    if not futex.available():
        return None
    try:
        fd = os.memfd_create("gossip")
    except OSError:
        return None
    try:
        os.posix_fallocate(fd, 0, num_bytes)
    except OSError:
        os.close(fd)
        return None
    return fd


def _opened(pid: int, fd: int, num_bytes: int) -> Memory:
    """The file of a process, which keeps it open until all have it.

    Raises:
        OSError: this one may not open it.
    """
    file = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        return np.frombuffer(mmap.mmap(file, num_bytes), np.uint8)
    finally:
        os.close(file)


def paged(num_bytes: int) -> int:
    """`num_bytes`, rounded up to whole pages."""
    return -(-num_bytes // PAGE) * PAGE
