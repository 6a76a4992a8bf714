"""Processes that are forked from one that has imported everything.

Until a small run is there, most of its time has gone into the import of torch. In its place there
is a `tests.stand_in`; that hands its environment and its open files (its output, its connection to
mpirun) to a process forked here, and ends as that one does; whoever kills it kills both. What is
forked has not seen MPI yet. It differs from what is started in that all processes of a job order
their sets alike, and in that nothing that is read while torch is imported is read from the job's
environment; so some jobs of each kind are started as usual.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.stand_in import MOST_FILES, PART

LONGEST = 1 << 20
"""More bytes than an order has."""
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
CALLED = "process "
"""Begins the name of a process of a job, which has another's environment as far as others see."""
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
"""Of Linux's prctl."""
_ASIDE = 2 * MOST_FILES
"""Above any number that a file has in a process of the tests."""
NAP_NANOSECONDS = 200_000
"""How late a nap may end, in place of Linux's 50,000: one that waits for a message looks for it
less often, which took 0.16 of a core, and takes 0.05. Ten times as long makes jobs slower."""


@dataclass(frozen=True)
class Order:
    """What a stand-in asks for."""

    files: list[int]
    numbers: list[int]
    """Of these files in the process that is asked for."""
    environment: dict[str, str]
    folder: str
    niceness: int
    words: list[str]


def received(stand_in: socket.socket) -> Order | None:
    """The order that a stand-in has sent; None of one that was killed before."""
    _, files, _, _ = socket.recv_fds(stand_in, 1, MOST_FILES)
    text = b""
    while not text.endswith(b"\n"):
        more = stand_in.recv(LONGEST)
        if not more:
            for file in files:
                os.close(file)
            return None
        text += more
    return Order(files, **json.loads(text))


def take_place(order: Order) -> None:
    """Be, as far as the process sees, what was started in its place."""
    hear_again()
    _die_with_parent()
    os.setpgrp()  # Ctrl-C comes by who stands in
    os.nice(max(0, order.niceness - os.nice(0)))
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # else all that are forked draw the same
    os.environ.clear()
    os.environ.update(order.environment)
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _ASIDE) for file in order.files]
    for file in order.files:
        os.close(file)
    for file, number in zip(aside, order.numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    if encoding := order.environment.get("PYTHONIOENCODING"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding=encoding)
    os.chdir(order.folder)
    for name in RANKS:
        if rank := order.environment.get(name):
            Path("/proc/self/comm").write_text(f"{CALLED}{rank}", encoding="utf-8")
            return


def _die_with_parent() -> None:
    """Linux kills this process when the one that forked it ends, however that comes about."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def nap_longer() -> None:
    """Let what this process, and those it forks, wait for be looked at less often; see `POLITE`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, NAP_NANOSECONDS)


def hear_again() -> None:
    """Leave what a process has for signals when it forks others."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def serve(listener: socket.socket, lifeline: int) -> Order | Counter[str]:
    """Fork what stand-ins ask for.

    Args:
        listener: where they ask.
        lifeline: a file that nobody writes to; when it ends, what is left of them is killed.

    Returns:
        CPU seconds of what was forked, by the part of the tests, when it is over; in a process
        that has been forked, its order.
    """
    nap_longer()
    gc.freeze()  # else each process looks through all of torch when it ends: a CPU second
    ends, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, socket.socket] = {}
    parts: dict[int, str] = {}
    spent: Counter[str] = Counter()
    is_over = False
    with ends, told, listener, selectors.DefaultSelector() as events:
        for source in (listener, ends, lifeline):
            events.register(source, selectors.EVENT_READ)
        while living or not is_over:
            for key, _ in events.select():
                if key.fileobj is listener:
                    stand_in, _ = listener.accept()
                    order = received(stand_in)
                    if order is None:
                        stand_in.close()
                        continue
                    pid = os.fork()
                    if not pid:
                        return order
                    for file in order.files:
                        os.close(file)
                    living[pid], parts[pid] = stand_in, order.environment.get(PART, "")
                    events.register(stand_in, selectors.EVENT_READ, pid)
                    answer(stand_in, pid)
                elif key.fileobj is ends:
                    ends.recv(LONGEST)
                elif key.fileobj == lifeline:
                    is_over = True
                    events.unregister(lifeline)
                elif key.data in living:  # its only word is its end: it has been killed
                    os.kill(key.data, signal.SIGKILL)
                    events.unregister(key.fileobj)
            for pid in living if is_over else ():
                os.kill(pid, signal.SIGKILL)
            for pid, code, seconds in ended(living):
                spent[parts.pop(pid)] += seconds
                with living.pop(pid) as stand_in:
                    if stand_in.fileno() in events.get_map():
                        events.unregister(stand_in)
                    answer(stand_in, code)
    return spent


def ended(living: Mapping[int, socket.socket]) -> list[tuple[int, int, float]]:
    """Pids of those that have ended, exit codes, below 0 by a signal, and CPU seconds."""
    found = [os.wait4(pid, os.WNOHANG) for pid in living]
    return [
        (pid, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)
        for pid, status, used in found
        if pid
    ]


def answer(stand_in: socket.socket, number: int) -> None:
    """Tell a stand-in the pid of its process, or how that has ended, if it is still there."""
    with contextlib.suppress(OSError):
        stand_in.sendall(b"%d\n" % number)
