"""The watcher: names the process that died without a word, and ends those that wait for it.

`kill -9`, the out-of-memory killer and a crash in native code leave no exception behind, and
MPICH kills the surviving processes at once, so that none of them can tell. One small child per
host, started by `gossip.comm.shutdown.failure` as a script (it imports nothing but the standard
library), sees each process of that host end and prints where it was.
"""

import contextlib
import json
import mmap
import os
import select
import shutil
import signal
import struct
import sys
import time
from pathlib import Path

SLOT = struct.Struct("<q?46s?")
"""A process's line in the file `positions`: step, whether it has left the run, phase (UTF-8),
whether it waits for others."""
GRACE_SECONDS = 2.0
"""How long the processes that are left may live after one of them has died, ..."""
PATIENCE_SECONDS = 60.0
"""... and how long they may take to go on without it, where their MPI can."""
GOES_ON = "goes-on"
"""Marker file: the survivors continue the run."""


def claim(folder: Path, kind: str) -> bool:
    """Whether this caller is the first on this host to claim `kind`, and so the one to speak."""
    with contextlib.suppress(OSError):
        (folder / kind).touch(exist_ok=False)
        return True
    return False


def say(text: str, record: str | None, fd: int = 2) -> None:
    """Print to `fd` in one write, and append to the file `record` if there is one."""
    with contextlib.suppress(OSError):
        os.write(fd, f"{text}\n".encode(errors="replace"))
    if record:
        with (
            contextlib.suppress(OSError),
            Path(record).open("a", encoding="utf-8", errors="replace") as file,
        ):
            file.write(f"{text}\n")


def obituary(folder: Path, positions: mmap.mmap, index: int, job: dict) -> None:
    """Print who died and where it was, unless it or another process has said so already."""
    step, _, phase, _ = SLOT.unpack_from(positions, index * SLOT.size)
    if (folder / "stop").exists() or not claim(folder, "failure"):
        return
    place = phase.rstrip(b"\0").decode(errors="replace")
    text = (
        f"{job['names'][index]} died at step {step} in {place} without a Python exception: "
        "killed (kill -9, out of memory?) or crashed in native code; "
        f"{'the others go on if they can' if job['may_go_on'] else 'the job ends'}"
    )
    say(text, job["record"])


def watch(
    folder: Path, job: dict, gone: list[int], pidfds: dict[int, int], pipes: dict[int, int]
) -> None:
    """Wait until all processes have ended.

    Args:
        folder: what the processes of this host share.
        job: see `main`.
        gone: indices of the processes that had ended before there was a watcher.
        pidfds: pidfd -> index of the process; -1 is the launcher's local process, without which
            nobody would end the rest.
        pipes: reading end -> index. A dying process lets go of its pipe, and of its connection
            to the launcher, long before its pidfd tells: by then it may be the last to have died.
    """
    with (folder / "positions").open("r+b") as file:
        positions = mmap.mmap(file.fileno(), 0)
    epoll = select.epoll()
    for fd in (*pidfds, *pipes):
        epoll.register(fd, select.EPOLLIN)
    deadline = float("inf")

    def ended(index: int) -> None:
        nonlocal deadline
        if index >= 0 and SLOT.unpack_from(positions, index * SLOT.size)[1]:
            return
        ending = (folder / "failure").exists()  # said so before this one ended
        grace = PATIENCE_SECONDS if job["may_go_on"] and not ending else GRACE_SECONDS
        deadline = min(deadline, time.monotonic() + grace)
        if index >= 0:
            obituary(folder, positions, index, job)

    for index in gone:
        ended(index)
    while any(index >= 0 for index in pidfds.values()):
        # epoll gives events in the order in which they happened: the first one is the culprit
        # ... and below 0 it would wait for ever: a deadline may have passed while we did not run
        for fd, _ in epoll.poll(min(max(deadline - time.monotonic(), 0.1), 3600.0)):
            epoll.unregister(fd)
            ended(pipes[fd] if fd in pipes else pidfds.pop(fd))
        if (folder / GOES_ON).exists():  # they have a watcher of their own
            return
        if time.monotonic() >= deadline:
            for fd in (fd for fd, index in pidfds.items() if index >= 0):
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)


def main() -> None:
    """Usage: watch.py FOLDER JOB, with JOB = JSON of {pids, names, parent, record, may_go_on}."""
    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    gone, pidfds = [], {}
    try:
        for index, pid in (*enumerate(job["pids"]), (-1, job["parent"])):
            try:
                pidfds[os.pidfd_open(pid)] = index
            except ProcessLookupError:  # one that fails early ends while its neighbour starts us
                gone.append(index)
    except (AttributeError, OSError):
        # No pidfds on this system: the job goes on without us. Its processes still need the
        # folder to agree on who speaks; our exit code tells them that they have to remove it.
        sys.exit("gossip: cannot watch the processes here; a killed one will not be named")
    flags = os.O_RDONLY | os.O_NONBLOCK
    try:
        pipes = {os.open(folder / f"pipe{i}", flags): i for i in range(len(job["pids"]))}
    except FileNotFoundError:  # one that failed has said so, and removed the folder
        sys.exit(1)
    if os.fork():  # the caller waits for this one only; the watcher becomes nobody's child
        os._exit(0)
    try:
        with contextlib.suppress(FileNotFoundError):  # the same, a moment later
            watch(folder, job, gone, pidfds, pipes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
