"""Environment variables and cores of a process before torch and MPI are imported."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import gossip_sgd
from gossip.comm.startup import asked
from gossip.comm.startup.inherited import flush
from gossip.comm.startup.launchers import by_srun, contradiction, from_environment, launched
from gossip.errors import UserError

if TYPE_CHECKING:
    pass


MPI_EXTRA = "pip install mpi4py mpich (the extra gossip-sgd[mpi])"
"""How to get MPI, by the names that the package index has."""
SHM_BYTES_PER_PROCESS = 8 << 20
"""MPICH's shared memory for each process; with less it dies in MPI_Init."""


def check_ours() -> None:
    """Refuse to go on among another library's files.

    Raises:
        UserError: `gossip/__init__.py`, which prepares the environment, is another library's.
    """
    if reason := gossip_sgd.stranger("gossip"):
        raise UserError(reason)


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
    how = from_environment()
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


def check_facts() -> None:
    """Find out whether this process can tell which others there are.

    Raises:
        CutOffError: what launchers say and what has been initialised contradict each other.
    """
    if text := contradiction():
        raise CutOffError(text)


class CutOffError(UserError):
    """This process cannot tell the others of its mistake, and speaks for itself."""


class NoMPIError(CutOffError):
    """MPI is missing here."""


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
            f"backend 'mpi' needs mpi4py and an MPI library ({reason}): {MPI_EXTRA}, "
            "or train in one process, without mpirun and with --backend stacked"
        ) from error
    asked.expect()  # MPI has put a handler of its own in place
    how, size = launched(), MPI.COMM_WORLD.size
    if how and size != how.size and by_srun():
        raise UserError(
            f"srun started {how.size} processes, but MPI sees {size}: they meet by another PMI "
            f"than {library(MPI)} knows, which mpi4py uses; give srun one that it does know "
            "(srun --mpi=list), or --mpi=none, which needs no MPI"
        )
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


def exit_at_once(code: int) -> NoReturn:
    """Exit at once: the end of MPI would wait for a process that has been lost."""
    flush()
    os._exit(code)
