"""Processes of a job that are forked from one that has imported everything.

Until a small run is there, most of its time has gone into the import of torch. mpirun starts a
`tests.stand_in` for each process; that hands its environment, its output and its connection to
mpirun to a process forked here, and ends as that one does; whoever kills it kills both. What is
forked has not seen MPI yet. It differs from what mpirun starts in its parent, in that all processes
of a job order their sets alike, and in that nothing that is read while torch is imported is read
from the job's environment; so some jobs of each kind are started as usual.
"""

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.stand_in import CONNECTION

LONGEST = 1 << 20
"""More bytes than an order has."""
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
"""Of Linux's prctl."""
NAP_NANOSECONDS = 200_000
"""How late a nap may end, in place of Linux's 50,000: one that waits for a message looks for it
less often, which took 0.16 of a core, and takes 0.05. Ten times as long makes jobs slower."""


@dataclass(frozen=True)
class Order:
    """What a stand-in asks for."""

    files: list[int]
    """Its standard ones, and its connection to mpirun, if it has one."""
    environment: dict[str, str]
    folder: str
    words: list[str]


def received(stand_in: socket.socket) -> Order | None:
    """The order that a stand-in has sent; None of one that was killed before."""
    _, files, _, _ = socket.recv_fds(stand_in, 1, 4)
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
    """Be, as far as the process sees, what mpirun has started."""
    hear_again()
    _die_with_parent()
    os.setpgrp()  # Ctrl-C comes by the launcher
    os.environ.clear()
    os.environ.update(order.environment)
    for number, file in enumerate(order.files[:3]):
        os.dup2(file, number)
    for file in order.files[3:]:
        os.set_inheritable(file, True)
        os.environ[CONNECTION] = str(file)
    os.chdir(order.folder)


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


def serve(
    listener: socket.socket,
    is_over: Callable[[], object],
    hears: Mapping[Any, Callable[[], None]] | None = None,
) -> Order | None:
    """Fork what stand-ins ask for.

    Args:
        listener: where they ask.
        is_over: whether there will be none any more: then what is left of them is killed.
        hears: other files, and what is called when there is something to read.

    Returns:
        None when it is over; in a process that has been forked, its order.
    """
    nap_longer()
    gc.freeze()  # else each process looks through all of torch when it ends: a CPU second
    ends, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, socket.socket] = {}
    with ends, told, listener, selectors.DefaultSelector() as events:
        calls = {listener: None, ends: lambda: ends.recv(LONGEST), **(hears or {})}
        for source, call in calls.items():
            events.register(source, selectors.EVENT_READ, call)
        while living or not is_over():
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
                    living[pid] = stand_in
                    events.register(stand_in, selectors.EVENT_READ, pid)
                    answer(stand_in, pid)
                elif callable(key.data):
                    key.data()
                elif key.data in living:  # its only word is its end: it has been killed
                    os.kill(key.data, signal.SIGKILL)
                    events.unregister(key.fileobj)
            for pid in living if is_over() else ():
                os.kill(pid, signal.SIGKILL)
            for pid, code in ended(living):
                with living.pop(pid) as stand_in:
                    if stand_in.fileno() in events.get_map():
                        events.unregister(stand_in)
                    answer(stand_in, code)
    return None


def ended(living: Mapping[int, socket.socket]) -> list[tuple[int, int]]:
    """Pids and exit codes of those that have ended; below 0 by a signal."""
    found = [(pid, *os.waitpid(pid, os.WNOHANG)) for pid in living]
    return [(pid, os.waitstatus_to_exitcode(status)) for pid, done, status in found if done]


def answer(stand_in: socket.socket, number: int) -> None:
    """Tell a stand-in the pid of its process, or how that has ended, if it is still there."""
    with contextlib.suppress(OSError):
        stand_in.sendall(b"%d\n" % number)
