"""tests/mpi in many processes of one job, forked from one that has imported everything.

Usage: forked.py PROCESSES [ARGUMENTS of pytest]. The imports of sixteen processes take longer than
their tests. mpirun starts a `tests.mpi.stand_in` for each, which hands its environment, its output
and its connection to mpirun to a process forked here, and ends as that one does. What is forked has
not seen MPI yet; it differs from what mpirun starts in its parent, and in that all processes order
their sets alike. So jobs of two processes, and those of the second MPI, are started as usual.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mpi.stand_in import CONNECTION

LONGEST = 1 << 20
"""More bytes than an order has."""


def imports() -> None:
    """What tests/mpi imports and pytest does not rewrite, but for MPI."""
    import torch

    from gossip import Gossip, run
    from tests import fits, problems
    from tests.rates import cases

    torch.optim.SGD([torch.zeros(1)])  # imports much on its own
    assert all((Gossip, run, fits, problems, cases))


@dataclass(frozen=True)
class Order:
    """What a stand-in asks for."""

    files: list[int]
    """Its standard ones, and its connection to mpirun, if it has one."""
    environment: dict[str, str]
    folder: str
    words: list[str]


def received(stand_in: socket.socket) -> Order:
    """The order that a stand-in has sent."""
    _, files, _, _ = socket.recv_fds(stand_in, 1, 4)
    text = b""
    while not text.endswith(b"\n"):
        text += stand_in.recv(LONGEST)
    return Order(files, **json.loads(text))


def become(order: Order) -> int:
    """Be what mpirun has asked for: pytest."""
    os.setpgrp()  # Ctrl-C comes by the launcher
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order.environment)
    for number, file in enumerate(order.files[:3]):
        os.dup2(file, number)
    for file in order.files[3:]:
        os.set_inheritable(file, True)
        os.environ[CONNECTION] = str(file)
    os.chdir(order.folder)
    return pytest.main(order.words)


def serve(listener: socket.socket, job: subprocess.Popen) -> int | Order:
    """Fork what stand-ins ask for until the job ends; gives its exit code, or an order to one."""
    ends, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as events:
        for source in (listener, ends):
            events.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fileobj is listener:
                    stand_in, _ = listener.accept()
                    order = received(stand_in)
                    pid = os.fork()
                    if not pid:
                        return order
                    for file in order.files:
                        os.close(file)
                    stand_in.sendall(b"%d\n" % pid)
                    living[pid] = stand_in
                    events.register(stand_in, selectors.EVENT_READ, pid)
                elif key.fileobj is ends:
                    ends.recv(LONGEST)
                elif key.data in living:  # a word from a stand-in is its end: mpirun has killed it
                    os.kill(key.data, signal.SIGKILL)
                    events.unregister(key.fileobj)
            for pid, code in ended(living):
                with living.pop(pid) as stand_in:
                    if stand_in.fileno() in events.get_map():
                        events.unregister(stand_in)
                    answer(stand_in, code)
            if job.poll() is not None and not living:
                return job.returncode


def ended(living: dict[int, socket.socket]) -> list[tuple[int, int]]:
    """Pids and exit codes of those that have ended; below 0 by a signal."""
    found = [(pid, *os.waitpid(pid, os.WNOHANG)) for pid in living]
    return [(pid, os.waitstatus_to_exitcode(status)) for pid, done, status in found if done]


def answer(stand_in: socket.socket, code: int) -> None:
    """Tell a stand-in how its process has ended, if it is still there."""
    with contextlib.suppress(OSError):
        stand_in.sendall(b"%d\n" % code)


def main(processes: str, words: list[str]) -> int:
    """Have the job started, import, and serve it."""
    folder = tempfile.mkdtemp(prefix="gossip-tests-")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/socket")
    listener.listen(int(processes))
    launch = [sys.executable, "-m", "gossip.launch", "-n", processes]
    words = ["--module", "tests.mpi.stand_in", "--", f"{folder}/socket", *words]
    job = subprocess.Popen([*launch, *words], cwd=Path(__file__).parents[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher hears it, and ends the job
    imports()
    what = serve(listener, job)
    if isinstance(what, Order):
        listener.close()
        job.returncode = 0  # it is not this process's to wait for
        return become(what)
    shutil.rmtree(folder)
    return what


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
