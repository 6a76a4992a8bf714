"""What happens before the processes know each other. Imports neither torch nor MPI."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gossip.errors import UserError, lookup

if TYPE_CHECKING:
    from gossip.comm.base import Communicator

Make = Callable[[], "Communicator"]

SHM_BYTES_PER_PROCESS = 8 << 20
"""MPICH's shared memory for each process; with less it dies in MPI_Init."""


@dataclass(frozen=True)
class Launched:
    """What the program that started this process says about it, before MPI exists."""

    rank: int
    size: int
    local_size: int | None = None
    """Processes of this job on this host, if known."""
    local_rank: int | None = None
    """Which of those this one is, if known."""


class Sign(NamedTuple):
    """Names of the environment variables in which a launcher says how it started a process."""

    rank: str
    size: str
    local_size: str
    local_rank: str


SIGNS = (
    Sign(  # PRRTE
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    ),
    # MPICH's hydra, and srun --mpi=pmi2
    Sign("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    # Set by srun only.
    Sign("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"),
)


def launched() -> Launched | None:
    """How mpirun or srun started this process; None if nothing says that one did."""
    for sign in SIGNS:
        rank, size, local_size, local_rank = map(_number, sign)
        if rank is not None and size is not None:
            return Launched(rank, size, local_size, local_rank)
    return None


def _number(name: str) -> int | None:
    """The number in an environment variable, if there is one."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def speaks() -> bool:
    """Whether this process prints what all processes of the job would print alike."""
    how = launched()
    return how is None or how.rank == 0


def may_go_on() -> bool:
    """Whether this MPI can do without a lost process: Open MPI's mpirun --with-ft ulfm says so."""
    return os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # noqa: SIM112


def prepare_environment() -> None:
    """Set what several processes on one host need; call before torch and mpi4py are imported.

    What the user has set stays. Waiting processes give their core away only where there are more
    of them than cores: that is many times faster there, and many times slower elsewhere.
    """
    how = launched()
    if how is None or how.size == 1:
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")  # says an error at each window
    local = how.local_size or how.size
    if local > num_cores():
        os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
        os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if small_shared_memory(local):
        os.environ.setdefault("UCX_TLS", "tcp,self")


def num_cores() -> int:
    """Cores that the job may use: the launcher's, as a process itself may be bound to one."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0) | os.sched_getaffinity(os.getppid()))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else min(cores, max(1, int(quota) // int(period)))


def small_shared_memory(num_processes: int) -> bool:
    """Whether /dev/shm (64 MB in a Docker container) is too small for MPICH's start."""
    try:
        free_bytes = shutil.disk_usage("/dev/shm").free
    except OSError:
        return False
    return free_bytes < num_processes * SHM_BYTES_PER_PROCESS


def connect(backend: str, n: int) -> "Communicator":
    """The communicator for n learners.

    Args:
        backend: a name in BACKENDS; "auto" is mpi where mpirun started several processes.
        n: number of learners, in all processes together.

    Raises:
        UserError: no such backend; it does not fit how this process was started; the processes
            do not divide n; MPI is not installed, or not the one whose mpirun was used.
    """
    return choose(backend, n)()


def choose(backend: str, n: int) -> Make:
    """What makes the communicator; see `connect`, whose mistakes are found here.

    Making one is collective; a mistake may be made by one process alone.
    """
    return lookup(BACKENDS, backend, "backend")(n)


def _auto(n: int) -> Make:
    how = launched()
    return _mpi(n) if how and how.size > 1 else _stacked(n)


def _stacked(n: int) -> Make:
    how = launched()
    if how and how.size > 1:
        raise UserError(
            f"backend 'stacked' keeps all learners in one process, but {how.size} were started: "
            f"each would train all {n}; leave mpirun out, or use --backend mpi"
        )
    from gossip.comm.stacked import Stacked

    return lambda: Stacked(n)


def _mpi(n: int) -> Make:
    how = launched()
    if how:
        check_divides(n, how.size)
    check_divides(n, start_mpi().COMM_WORLD.size)
    from gossip.comm.mpi import Mpi

    return lambda: Mpi(n)


BACKENDS: dict[str, Callable[[int], Make]] = {
    "auto": _auto,
    "stacked": _stacked,
    "mpi": _mpi,
}
"""What `--backend` offers: number of learners -> what makes the communicator."""


def check_divides(n: int, processes: int) -> None:
    """Every process hosts equally many learners.

    Raises:
        UserError: n is not a multiple of the number of processes.
    """
    if n % processes:
        fitting = ", ".join(str(p) for p in range(1, n + 1) if n % p == 0)
        raise UserError(
            f"{n} learners on {processes} processes: every process hosts equally many, so {n} "
            f"learners run on {fitting} processes; change --learners or mpirun -n"
        )


class NoMPIError(UserError):
    """MPI is missing here: this process cannot tell the others, and speaks for itself."""


def start_mpi() -> Any:
    """The module mpi4py.MPI; importing it starts MPI.

    Raises:
        NoMPIError: mpi4py or the MPI library is missing.
        UserError: it is not the MPI whose mpirun was used.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise NoMPIError(
            f"backend 'mpi' needs mpi4py and an MPI library ({reason}): pip install 'gossip[mpi]', "
            "or train in one process, without mpirun and with --backend stacked"
        ) from error
    how, size = launched(), MPI.COMM_WORLD.size
    if how and size != how.size:
        raise UserError(
            f"mpirun started {how.size} processes, but MPI sees {size}: mpirun and mpi4py belong "
            f"to different MPIs. mpi4py uses {library(MPI)}; the first mpirun on PATH is "
            f"{shutil.which('mpirun')}; use {Path(sys.prefix, 'bin', 'mpirun')}, "
            "or python -m gossip.launch"
        )
    return MPI


def library(mpi: Any) -> str:
    """Name and version of the MPI library in use, such as 'MPICH Version: 5.0.2'."""
    text = mpi.Get_library_version().strip("\0\n ").splitlines()[0]
    return " ".join(text.split(",")[0].split())


def leave(code: int) -> NoReturn:
    """Exit at once: the end of MPI would wait for a process that has been lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
