"""What happens before the processes know each other. Imports neither torch nor MPI."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gossip.comm.launchers import TORCHRUN, Launched, launched, sign
from gossip.errors import UserError, lookup

if TYPE_CHECKING:
    import torch

    from gossip.comm.base import Communicator

Make = Callable[[], "Communicator"]


class Wanted(NamedTuple):
    """What a communicator is to be for."""

    n: int
    """Learners, in all processes together."""
    device: str = "cpu"
    """Where the rows of this process will be: "cpu", "cuda" (torch's own choice), "cuda:1"."""
    wire: "torch.dtype | None" = None
    """In which dtype they travel; None: in their own."""


SHM_BYTES_PER_PROCESS = 8 << 20
"""MPICH's shared memory for each process; with less it dies in MPI_Init."""


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


def connect(
    backend: str, n: int, device: str = "cpu", wire: "torch.dtype | None" = None
) -> "Communicator":
    """The communicator for n learners.

    Args:
        backend: a name in BACKENDS. "auto" is stacked for one process; for several, nccl where
            their rows are on GPUs, else mpi where they find each other by it, else gloo.
        n: number of learners, in all processes together.
        device: where the rows of this process will be: "cpu", "cuda" (torch's choice), "cuda:1".
        wire: dtype in which rows travel to others; None: in their own.

    Raises:
        UserError: no such backend; it does not fit how this process was started, or is missing
            here; the processes do not divide n; MPI is not the one whose mpirun was used.
    """
    return choose(backend, n, device, wire)()


def choose(backend: str, n: int, device: str = "cpu", wire: "torch.dtype | None" = None) -> Make:
    """What makes the communicator; see `connect`, whose mistakes are found here.

    Making one is collective; a mistake may be made by one process alone.
    """
    return lookup(BACKENDS, backend, "backend")(Wanted(n, device, wire))


def _auto(wanted: Wanted) -> Make:
    from gossip.comm.rendezvous import meets_by_mpi

    how = launched()
    if how is None or how.size == 1:
        return _stacked(wanted)
    if wanted.device.startswith("cuda"):
        return _nccl(wanted)
    return (_mpi if meets_by_mpi() else _gloo)(wanted)


def _stacked(wanted: Wanted) -> Make:
    how = launched()
    if how and how.size > 1:
        raise UserError(
            f"backend 'stacked' keeps all learners in one process, but {how.size} were started: "
            f"each would train all {wanted.n}; start one, or use another --backend"
        )
    from gossip.comm.stacked import Stacked

    return lambda: Stacked(wanted.n, wanted.wire)


def _mpi(wanted: Wanted) -> Make:
    how = launched()
    if sign() is TORCHRUN:
        raise UserError(
            "backend 'mpi' needs processes that mpirun has started, but these were by torchrun; "
            "use mpirun, or --backend gloo"
        )
    if how:
        check_divides(wanted.n, how.size)
    check_divides(wanted.n, start_mpi().COMM_WORLD.size)
    from gossip.comm.mpi import Mpi

    return lambda: Mpi(wanted.n, device=wanted.device, wire=wanted.wire)


def _gloo(wanted: Wanted) -> Make:
    _check_torch("gloo")
    how = launched()
    check_divides(wanted.n, how.size if how else 1)
    from gossip.comm.distributed import Gloo

    return lambda: Gloo(wanted.n, wire=wanted.wire)


def _nccl(wanted: Wanted) -> Make:
    import torch

    _check_torch("nccl")
    how = launched() or Launched(0, 1, 1, 0)
    check_divides(wanted.n, how.size)
    if not torch.cuda.is_available():
        raise UserError(
            "backend 'nccl' sends between GPUs, and no GPU can be used here; "
            "use --backend mpi or gloo for rows on the CPU"
        )
    if not wanted.device.startswith("cuda"):
        raise UserError(
            f"backend 'nccl' sends between GPUs, but the rows are to be on the {wanted.device}; "
            "put them on a GPU (--device auto), or use --backend mpi or gloo"
        )
    from gossip.comm.nccl import Nccl

    return lambda: Nccl(wanted.n, device=wanted.device, wire=wanted.wire)


def _check_torch(backend: str) -> None:
    """Raises UserError if this torch lacks a backend of torch.distributed."""
    import torch
    from torch import distributed

    has = {"gloo": "is_gloo_available", "nccl": "is_nccl_available"}[backend]
    if not (distributed.is_available() and getattr(distributed, has)()):
        raise UserError(
            f"backend {backend!r} is not in this torch ({torch.__version__}): install a torch that "
            "has it, or use --backend mpi"
        )


BACKENDS: dict[str, Callable[[Wanted], Make]] = {
    "auto": _auto,
    "stacked": _stacked,
    "mpi": _mpi,
    "gloo": _gloo,
    "nccl": _nccl,
}
"""What `--backend` offers: what is wanted -> what makes it."""


def check_divides(n: int, processes: int) -> None:
    """Every process hosts equally many learners.

    Raises:
        UserError: n is not a multiple of the number of processes.
    """
    if n % processes:
        fitting = ", ".join(str(p) for p in range(1, n + 1) if n % p == 0)
        raise UserError(
            f"{n} learners on {processes} processes: every process hosts equally many, so {n} "
            f"learners run on {fitting} processes; change --learners or their number"
        )


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
