"""A tiny run for the fault tests: steps of a ring, and one process that may misbehave.

Usage: job.py DEED [PROCESS], where PROCESS (-1: all) does DEED at step 17 ("blocked": before the
first; "absent": while the others share a word). Into the folder
$JOB_FOLDER it writes `ready` (the processes' pids) at that step, `closed` when the run has been
closed properly, with the sum of process 0's rows, and what the package itself writes. $JOB_BACKEND
is one of `connected`, or "light": a communicator without torch, whose import in every process would
take most of the time. $JOB_TIMEOUT are the seconds that a process waits, $JOB_STEPS the steps.
"""

import errno
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from gossip.comm.connect import connect
from gossip.comm.shutdown import failure
from gossip.comm.shutdown.failure import Position, ending_the_job
from gossip.comm.shutdown.overdue import Waiting
from gossip.comm.startup.environment import prepare_environment, speaks
from gossip.errors import UserError

BAD_STEP = 17
NUM_STEPS = int(os.environ.get("JOB_STEPS", "3000"))
TIMEOUT = float(os.environ.get("JOB_TIMEOUT", "0"))
STEP_SECONDS = 0.01
FOLDER = Path(os.environ["JOB_FOLDER"])


class Light:
    """What the guards need of a communicator, and a blocking ring in `mix`."""

    def __init__(self, n: int) -> None:
        from mpi4py import MPI

        self.mpi = MPI.COMM_WORLD
        self.n, self.process, self.processes = n, self.mpi.rank, self.mpi.size
        local = n // self.processes
        self.hosted = range(self.process * local, (self.process + 1) * local)
        self.waiting = Waiting()
        self.rows = float(self.process)

    def share(self, value):
        with self.waiting("a word from every process"):
            return self.mpi.allgather(value)

    def lost(self, error):
        from mpi4py import MPI

        if not isinstance(error, MPI.Exception):  # what follows imports torch
            return False
        from gossip.comm.transports.mpi import Mpi

        return Mpi.lost(self, error)

    def mix(self):
        right, left = (self.process + 1) % self.processes, (self.process - 1) % self.processes
        with self.waiting(f"the row of process {left}"):
            theirs = self.mpi.sendrecv(self.rows, right, source=left)
        self.rows = 0.5 * self.rows + 0.5 * theirs + self.process
        return self.rows

    def everyone_arrives(self, seconds):
        request, deadline = self.mpi.Ibarrier(), time.monotonic() + seconds
        while not request.Test() and time.monotonic() < deadline:
            time.sleep(0.01)
        return bool(request.Test())

    def abort(self, code):
        self.mpi.Abort(code)


def connected(backend, n):
    """One of connect's; "gloo-messages": as if every process had a host of its own."""
    if backend != "gloo-messages":
        return connect(backend, n)
    from gossip.comm.transports.gloo import Gloo

    return Gloo(n, place=os.getpid())


def mixing(comm):
    """A function that does one step's exchange, and gives the sum of this process's rows."""
    if isinstance(comm, Light):
        return comm.mix
    import numpy as np
    import torch
    from scipy.sparse import csr_array

    eye = np.eye(comm.n)
    w = csr_array((eye + np.roll(eye, 1, 0) + np.roll(eye, -1, 0)) / 3)
    x = torch.ones(len(comm.hosted), 1000) * comm.process

    def mix():
        x.copy_(comm.start_mix(x, w)() + comm.process)
        return float(x.sum())

    return mix


def fail():
    raise ValueError("that gradient is no good")


def disconnect():
    from mpi4py import MPI

    raise MPI.Exception(MPI.ERR_OTHER)


def mistake():
    raise UserError("dataset 'mnits' is not known")


def leave():
    os._exit(0)


def block():
    """Let this process fail to map the file that it shares with the others of its host."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    failure.mmap = SimpleNamespace(mmap=full)


DEEDS = {"fail": fail, "mistake": mistake, "exit": sys.exit, "crash": os.abort, "leave": leave}
DEEDS |= {"disconnect": disconnect, "nothing": lambda: None}
# Before it sends its row: stopped from outside, it may be in a talk about whether to stop.
DEEDS |= {"stop": lambda: os.kill(os.getpid(), signal.SIGSTOP)}
DEEDS |= dict.fromkeys(("sleep", "absent"), lambda: time.sleep(60))


def run(deed: str, culprit: int) -> int:
    backend, n = os.environ.get("JOB_BACKEND", "light"), int(os.environ.get("JOB_LEARNERS", "4"))
    comm = Light(n) if backend == "light" else connected(backend, n)
    mix = mixing(comm)
    position = Position()
    if deed == "blocked" and comm.process == culprit:
        block()

    def last_words() -> None:
        (FOLDER / "last_words").write_text(str(position))

    with ending_the_job(
        comm,
        position,
        record=FOLDER / "end.txt",
        last_words=last_words,
        timeout=TIMEOUT,
        stacks=lambda: FOLDER / "stacks.txt",
    ) as stop:
        pids = comm.share(os.getpid())
        for step in range(NUM_STEPS):
            position.step, position.phase = step, "gradient"
            if step == BAD_STEP and comm.process == 0:
                (FOLDER / "ready.part").write_text(" ".join(map(str, pids)))
                (FOLDER / "ready.part").rename(FOLDER / "ready")
            if step == BAD_STEP and culprit in (comm.process, -1):
                DEEDS[deed]()
            if deed == "absent" and step == BAD_STEP and comm.process != culprit:
                comm.share("present")
            rows = mix()
            time.sleep(STEP_SECONDS)
            if stop.decide(step).stop:
                break
        position.phase = "closing"
        if comm.process == 0:
            (FOLDER / "closed").write_text(str(rows))
    return stop.exit_code


def main() -> int:
    deed, culprit = (*sys.argv[1:3], "0")[:2]
    prepare_environment()
    try:
        return run(deed, int(culprit))
    except UserError as error:
        if speaks():
            print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
