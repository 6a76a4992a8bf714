"""Jobs for the fault tests: started in a folder of their own, ended under a hard limit.

Afterwards no process may be left that knows this folder. The MPI is the one of this Python
environment.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gossip.launch import mpirun as launch
from tests.forked import CALLED, RANKS
from tests.machine import patience
from tests.parts import POLITE
from tests.stand_in import FORKED
from tests.start import CHECKOUT, PYTHONPATH

MPIRUN = launch.find_mpirun() if shutil.which("mpirun", path=f"{sys.prefix}/bin") else ""
NEED_MPI = [
    pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(60),
    pytest.mark.needs_mpi,
]

ROOT = Path(__file__).parents[2]
AS_USERS = {"PYTHONPATH": CHECKOUT, **dict.fromkeys((*POLITE, FORKED))}
"""For a job that has all of torch, and whose processes wait as they would without `make test`; they
look for no garbage when they end, see `tests/start/garbage.py`."""
SHARED_MEMORY = Path("/dev/shm")
START_SECONDS = 40.0
END_SECONDS = 10.0
"""Limits on a quiet machine; see `tests.machine.patience`."""
NUM_PROCESSES = 3
KIND = launch.kind_of(MPIRUN) if MPIRUN else ""
MPICH = KIND == "mpich"
KILLED = 9 if MPICH else 128 + signal.SIGKILL
"""What mpirun gives where a process was killed: the signal, or as a shell does."""
CRASHED = (6, 15) if MPICH else (128 + signal.SIGABRT,)
"""What mpirun gives after `os.abort`: MPICH's that signal, or the one by which it ends the others,
whichever it sees first (6 in 10 of 12 jobs, 15 in 2)."""
LEFT = (0, 9) if MPICH else (1,)
"""What mpirun gives where a process left by `os._exit(0)`: MPICH's that code, or the signal by
which it ends the others, whichever it sees first (0 in 22 of 30 jobs, 9 in 8)."""


def signalled(signum: signal.Signals) -> int:
    """What mpirun gives where it was told to end: MPICH's passes on what our processes give."""
    return 128 + signum if MPICH else 1


def seconds_waited(line: str) -> float:
    """How long a process has waited, by its own words."""
    (seconds,) = re.findall(r" has waited (\S+) s ", line)
    return float(seconds)


@dataclass
class Ended:
    """How a job ended."""

    code: int
    text: str
    seconds: float
    folder: Path

    def told(self) -> list[str]:
        """Our own lines, without those of the MPI and of the traceback."""
        # Open MPI's mpirun may leave a NUL behind its own last line.
        lines = (line.lstrip("\0") for line in self.text.splitlines())
        return [line for line in lines if line.startswith(("learner", "error:", "gossip"))]


class Job:
    """A job that has been started, with its output in a file (a pipe could fill up)."""

    def __init__(self, folder: Path, command: list[str], **more: str | None) -> None:
        """Start it; of `more` of its environment None is left away."""
        self.folder = folder
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
        # What gossip.launch sets, so that a plain mpirun works as root on a few cores, too.
        kind = launch.kind_of(MPIRUN)
        environment = {
            **launch.environment_for(kind, clean),
            "JOB_FOLDER": str(folder),
            "JOB_LEARNERS": str(2 * NUM_PROCESSES),
            "PYTHONPATH": PYTHONPATH,
            "TMPDIR": str(folder),  # a killed Open MPI leaves something that stops another's start
            **more,
        }
        environment = {name: value for name, value in environment.items() if value is not None}
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=folder
            )

    def pids(self) -> list[int]:
        """The pids of the processes; waits until they are in the middle of training."""
        deadline = time.monotonic() + patience(START_SECONDS)
        while not (self.folder / "ready").exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail(f"the job did not start: {(self.folder / 'output').read_text()}")
            time.sleep(0.02)
        return [int(pid) for pid in (self.folder / "ready").read_text().split()]

    def end(self, limit_seconds: float = END_SECONDS) -> Ended:
        """Wait for the end; nothing of the job may be left then."""
        start, limit_seconds = time.monotonic(), patience(limit_seconds)
        try:
            code = self.process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running: {(self.folder / 'output').read_text()}")
        seconds = time.monotonic() - start
        while left_behind(self.folder) and time.monotonic() < start + limit_seconds:
            time.sleep(0.05)
        assert left_behind(self.folder) == []
        return Ended(code, (self.folder / "output").read_text(), seconds, self.folder)


def wait_for(job: Job, condition: Callable[[], object]) -> None:
    """Wait until something holds that the job brings about."""
    deadline = time.monotonic() + patience(2 * START_SECONDS)
    while not condition():
        if time.monotonic() > deadline or job.process.poll() is not None:
            pytest.fail(f"it did not come: {(job.folder / 'output').read_text()}")
        time.sleep(0.01)


def pid_of(job: Job, process: int) -> int:
    """The pid of a process of the job, by what its launcher has told it."""
    living = left_behind(job.folder)
    if forked := [pid for pid in living if _called(pid) == f"{CALLED}{process}"]:
        return forked[0]
    marks = {f"{name}={process}".encode() for name in RANKS}
    [pid] = [
        pid for pid in living if marks & set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    ]
    return pid


def _called(pid: int) -> str:
    with contextlib.suppress(OSError):  # it has just ended
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def left_behind(folder: Path) -> list[int]:
    """Pids of a job's living processes: they have its folder in their environment, or are in it."""
    needle = f"JOB_FOLDER={folder}\0".encode()
    found = []
    for proc in Path("/proc").glob("[1-9]*"):
        try:
            known = needle in (proc / "environ").read_bytes()
            if (known or (proc / "cwd").readlink() == folder) and int(proc.name) != os.getpid():
                found.append(int(proc.name))
        except OSError:
            continue  # it has just ended
    return found


def shared_memory() -> set[Path]:
    """What the MPIs have in /dev/shm; they do not remove it when a process is killed."""
    return {file for kind in ("mpich_shm_*", "sm_segment.*") for file in SHARED_MEMORY.glob(kind)}


def remove_unused(files: set[Path]) -> None:
    """Remove those of the files that no living process uses, so no job beside ours does.

    What is open is looked at before what is mapped: a process maps a file before it closes it.
    """
    if not files:
        return
    used = []
    for pattern, read in (("[0-9]*/fd/*", os.readlink), ("[0-9]*/maps", Path.read_text)):
        for place in Path("/proc").glob(pattern):
            with contextlib.suppress(OSError):  # it has just ended
                used.append(read(place))
    for file in files:
        if not any(str(file) in text for text in used):
            file.unlink(missing_ok=True)
