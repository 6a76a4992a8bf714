"""A tiny run for the fault tests: steps of a ring, and one process that may misbehave.

Usage: job.py DEED [PROCESS], where PROCESS (-1: all) does DEED at step 17 ("blocked": before the
first). Into the folder
$JOB_FOLDER it writes `ready` (the processes' pids) at that step, `closed` when the run has been
closed properly, and what the package itself writes. $JOB_BACKEND is one of connect's, or
"light": a communicator without torch, whose import in every process would take most of the time.
"""

import errno
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from gossip.comm import failure
from gossip.comm.failure import Position, ending_the_job
from gossip.comm.start import connect, prepare_environment, speaks
from gossip.errors import UserError

BAD_STEP = 17
NUM_STEPS = 3000
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

    def share(self, value):
        return self.mpi.allgather(value)

    def mix(self):
        right, left = (self.process + 1) % self.processes, (self.process - 1) % self.processes
        self.mpi.sendrecv(1.0, right, source=left)

    def everyone_arrives(self, seconds):
        request, deadline = self.mpi.Ibarrier(), time.monotonic() + seconds
        while not request.Test() and time.monotonic() < deadline:
            time.sleep(0.01)
        return bool(request.Test())

    def abort(self, code):
        self.mpi.Abort(code)


def mixing(comm):
    """A function that does one step's exchange."""
    if isinstance(comm, Light):
        return comm.mix
    import numpy as np
    import torch
    from scipy.sparse import csr_array

    eye = np.eye(comm.n)
    w = csr_array((eye + np.roll(eye, 1, 0) + np.roll(eye, -1, 0)) / 3)
    x = torch.ones(len(comm.hosted), 1000)
    return lambda: comm.start_mix(x, w)()


def fail():
    raise ValueError("that gradient is no good")


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
DEEDS |= {"sleep": lambda: time.sleep(60), "nothing": lambda: None}


def run(deed: str, culprit: int) -> int:
    backend, n = os.environ.get("JOB_BACKEND", "light"), int(os.environ.get("JOB_LEARNERS", "4"))
    comm = Light(n) if backend == "light" else connect(backend, n)
    mix = mixing(comm)
    position = Position()
    if deed == "blocked" and comm.process == culprit:
        block()

    def last_words() -> None:
        (FOLDER / "last_words").write_text(str(position))

    with ending_the_job(comm, position, record=FOLDER / "end.txt", last_words=last_words) as stop:
        pids = comm.share(os.getpid())
        for step in range(NUM_STEPS):
            position.step, position.phase = step, "gradient"
            if step == BAD_STEP and comm.process == 0:
                (FOLDER / "ready.part").write_text(" ".join(map(str, pids)))
                (FOLDER / "ready.part").rename(FOLDER / "ready")
            if step == BAD_STEP and culprit in (comm.process, -1):
                DEEDS[deed]()
            mix()
            time.sleep(STEP_SECONDS)
            if stop.agreed(step):
                break
        position.phase = "closing"
        if comm.process == 0:
            (FOLDER / "closed").write_text(str(position.step))
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
