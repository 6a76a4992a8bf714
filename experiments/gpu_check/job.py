"""Every part is a job of one process or several, and ends with the same exit codes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from experiments.gpu_check.running import CANNOT, LEFT_OUT
from experiments.gpu_check.size import FULL, SMOKE, Size
from gossip.comm.base import Communicator
from gossip.comm.connect import connect
from gossip.comm.shutdown.failure import ending_the_job
from gossip.comm.shutdown.position import Position
from gossip.comm.startup.environment import speaks
from gossip.errors import UserError
from gossip.malloc import keep_memory
from gossip.task.device import place
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options that the driver passes to a part."""

    file: Path
    """File that the rows are written to."""
    device: str = "cuda"
    """Device: cuda or cpu."""
    backend: str = "nccl"
    """Backend between processes."""
    learners: int = 1
    """Number of learners in all processes together."""
    seconds: float = 60.0
    """Seconds after which nothing new is begun."""
    smoke: bool = False

    @property
    def size(self) -> Size:
        """The size that these options choose."""
        return SMOKE if self.smoke else FULL


def main(part: Callable[[Job], None]) -> int:
    """Run a part of one process; 0, or 2 if it cannot be run here."""
    return _exit_code(lambda job: part(job))


def main_across(part: Callable[[Job, Communicator], None]) -> int:
    """Run a part of several processes, on each of them; 0, or 2 if it cannot be run here."""

    def together(job: Job) -> None:
        comm = connect(job.backend, job.learners, job.device)
        with ending_the_job(comm, Position(), timeout=job.seconds):
            part(job, comm)

    return _exit_code(together)


@lossy_output()
def _exit_code(part: Callable[[Job], None]) -> int:
    job = tyro.cli(Job)
    torch.set_num_threads(1)
    keep_memory()  # as gossip.run does
    try:
        place(job.device)
        part(job)
    except UserError as error:
        if speaks():
            print(f"{CANNOT}{error}", file=sys.stderr)
        return 2
    return 0


def say(comm: Communicator, text: str) -> None:
    """Print a line to the part's log, once for all processes."""
    if comm.process == 0:
        print(text, file=sys.stderr, flush=True)


def left_out(comm: Communicator, text: str) -> None:
    """Say what is not done, so that the driver says so, too."""
    say(comm, f"{LEFT_OUT}{text}")
