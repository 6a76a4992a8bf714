"""One mpirun job: all tables of so many processes, one after the other.

Started by experiments.bench as python -m gossip.launch -n P --module experiments.bench.job.
"""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from experiments.bench import rows
from experiments.bench.catalogue import TABLES
from experiments.bench.measure import Meeting, StoppedError
from experiments.bench.size import SIZES
from gossip.comm.base import Communicator
from gossip.comm.connect import connect
from gossip.comm.shutdown.failure import ending_the_job
from gossip.comm.shutdown.position import Position
from gossip.comm.startup.environment import num_cores, start_mpi
from gossip.malloc import keep_memory
from topologies.terminal import lossy_output

POLL_SECONDS = 0.002


@dataclass(frozen=True, kw_only=True)
class Job:
    """Options of one mpirun job."""

    tables: tuple[str, ...]
    size: str
    out: Path


@lossy_output()
def main() -> int:
    """Run the command line; gives the exit code."""
    job = tyro.cli(Job)
    torch.set_num_threads(1)
    keep_memory()  # as gossip.run does; all sides have it
    comm = connect("mpi", start_mpi().COMM_WORLD.size)
    position = Position()

    def stopped() -> bool:
        position.step += 1
        return stop.decide(position.step).stop

    with ending_the_job(comm, position) as stop, suppress(StoppedError):
        measure(job, meeting_of(comm, stopped), position)
    return stop.exit_code


def meeting_of(comm: Communicator, stopped: Callable[[], bool] = lambda: False) -> Meeting:
    """Processes that meet over MPI; process 0 speaks."""

    def say(text: str) -> None:
        if comm.process == 0:
            print(f"bench: {text}", file=sys.stderr, flush=True)

    crowded = comm.processes > num_cores()
    wait = _wait_asleep if crowded else _wait_busily
    return Meeting(comm, wait, _wait_asleep, stopped, say)


def measure(job: Job, meeting: Meeting, position: Position) -> None:
    """Append the rows of each table to its file as they come; collective."""
    size = SIZES[job.size]
    for name in job.tables:
        position.phase = name  # for the message of a process that fails or is told to stop
        across = TABLES[name].across
        assert across is not None, f"{name} is measured in one process"
        for found in across(size, meeting):
            if meeting.comm.process == 0:
                rows.append(found, job.out / f"{name}.csv")


def _wait_busily() -> None:
    start_mpi().COMM_WORLD.Barrier()


def _wait_asleep() -> None:
    """Wait asleep, so that the cores are left to the processes that are still measuring."""
    request = start_mpi().COMM_WORLD.Ibarrier()
    while not request.Test():
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
