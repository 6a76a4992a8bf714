"""How the processes of a job find each other: by MPI, or by a store of torch.distributed.

A store is a table of texts in one process (under torchrun, in the launcher) that the others ask.
Imports neither torch nor MPI before they are needed.
"""

import os
import pickle
import re
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from gossip.comm.startup.environment import CutOffError, start_mpi
from gossip.comm.startup.launchers import SLURM, TORCHRUN, Launched, launched, mpi_world, sign
from gossip.errors import UserError

if TYPE_CHECKING:
    from torch.distributed import Store

T = TypeVar("T")

MEETING_SECONDS = 300.0
"""How long a process waits for the others to begin, as in torch."""
FIRST_PORT, NUM_PORTS = 20000, 10000
"""Where srun's processes meet: a port for the step of a job. Below what systems give away by
themselves (32768 and more on Linux)."""

_calls = count()


def meets_by_mpi() -> bool:
    """Whether the processes of this job find each other by MPI; the same on all of them.

    torchrun has none. srun starts programs with MPI and without, and gives the former PMI, the
    interface by which an MPI learns of its processes. An initialised MPI needs no launcher that
    we know.
    """
    by = sign()
    if by is None:
        return mpi_world() is not None
    if by is SLURM:
        return any(name.startswith("PMI") for name in os.environ)
    return by is not TORCHRUN


def everyone(value: T) -> list[T]:
    """Every process's value, in process order, before there is a communicator. Collective.

    Raises:
        CutOffError: on this process alone: it does not reach the others, or one does not come.
        UserError: as `start_mpi`.
    """
    how = launched()
    if how is None or how.size == 1:
        return [value]
    if meets_by_mpi():
        return start_mpi().COMM_WORLD.allgather(value)
    return _told_by_group(value, how) if sign() is None else _told_by_store(value, how)


def end_job(code: int) -> None:
    """End all processes of the job, now, with this exit code.

    Without MPI this process ends alone: torchrun and srun then end the others.
    """
    if not meets_by_mpi():
        os._exit(code)
    start_mpi().COMM_WORLD.Abort(code)  # on a duplicate, MPICH loses the code


@cache
def store() -> "Store":
    """The store of this job. Collective at its first call.

    Raises:
        CutOffError: this process does not reach it, within MEETING_SECONDS.
        UserError: as `start_mpi`.
    """
    from torch.distributed import HashStore

    how = launched()
    if how is None or how.size == 1:
        return HashStore()
    by_others = meets_by_mpi() or sign() is None
    return _store_on_first(how.rank) if by_others else _store_by_environment(how)


def _store_on_first(rank: int) -> "Store":
    """Process 0 has it on a free port, which it tells the others by MPI or torch.distributed."""
    from torch.distributed import TCPStore

    limit = timedelta(seconds=MEETING_SECONDS)
    hosts = everyone(socket.gethostname())
    host = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
    server: Any = None
    mistake = None
    if rank == 0:
        server, mistake = _tried(
            lambda: TCPStore(host, 0, is_master=True, timeout=limit, wait_for_workers=False)
        )
    port, mistake = everyone((server and server.port, mistake))[0]
    mine = server
    if rank > 0 and mistake is None:
        mine, mistake = _tried(lambda: TCPStore(host, port, timeout=limit, wait_for_workers=False))
    if mistakes := [text for text in everyone(mistake) if text]:
        raise UserError(
            f"the processes cannot meet at {host}, the host of process 0: {mistakes[0]}"
        )
    assert mine is not None, "made, or its error is known"
    return mine


def _tried(make: Callable[[], T]) -> tuple[T | None, str | None]:
    """What `make` gives, or what torch says of it."""
    try:
        return make(), None
    except RuntimeError as error:
        return None, _first_line(error)


def _store_by_environment(how: Launched) -> "Store":
    """Where torchrun says, or on the first host of a Slurm job."""
    import torch.distributed as dist

    limit = timedelta(seconds=MEETING_SECONDS)
    try:
        if sign() is TORCHRUN:
            return next(dist.rendezvous("env://", timeout=limit))[0]
        host, port = slurm_address()
        return dist.TCPStore(host, port, how.size, is_master=how.rank == 0, timeout=limit)
    except (RuntimeError, ValueError) as error:
        names = "MASTER_ADDR and MASTER_PORT" if sign() is TORCHRUN else "Slurm's nodes and job id"
        raise CutOffError(
            f"process {how.rank} of {how.size} cannot meet the others where {names} say, within "
            f"{MEETING_SECONDS:.0f} s: {_first_line(error)}"
        ) from error


def slurm_address() -> tuple[str, int]:
    """Host and port at which the processes of a Slurm step meet. Tried on one node only.

    Raises:
        ValueError: Slurm has not said on which hosts the job runs.
    """
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", "")
    first = re.match(r"(?P<name>[^,\[\]]+)(\[(?P<number>\d+))?", nodes)
    if first is None:
        raise ValueError("neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST names a host")
    job, step = (int(os.environ.get(f"SLURM_{name}", "0")) for name in ("JOB_ID", "STEP_ID"))
    return first["name"] + (first["number"] or ""), FIRST_PORT + (job + step) % NUM_PORTS


def _told_by_store(value: T, how: Launched) -> list[T]:
    """As `everyone`, for processes without MPI."""
    table, call = store(), next(_calls)
    table.set(f"{call}/{how.rank}", b64encode(pickle.dumps(value)).decode("ascii"))
    told: list[Any] = []
    try:
        for process in range(how.size):
            told.append(pickle.loads(b64decode(table.get(f"{call}/{process}"))))
        if table.add(f"{call}/read", 1) == how.size:
            table.set(f"{call}/done", "")
        if how.rank == 0:  # whoever has the store stays until all have read
            table.get(f"{call}/done")
    except RuntimeError as error:
        late = f"process {len(told)}" if len(told) < how.size else "another process"
        raise CutOffError(
            f"process {how.rank} has not heard of {late} within {MEETING_SECONDS:.0f} s: "
            f"{_first_line(error)}"
        ) from error
    return told


def _told_by_group(value: T, how: Launched) -> list[T]:
    """As `everyone`, for processes that the user's program has let find each other."""
    import torch.distributed as dist

    told: list[Any] = [None] * how.size
    try:
        dist.all_gather_object(told, value)
    except RuntimeError as error:
        raise CutOffError(
            f"process {how.rank} of {how.size} cannot reach all others by the initialised "
            f"torch.distributed: {_first_line(error)}"
        ) from error
    return told


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
