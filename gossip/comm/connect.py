"""Choose the transport that fits how the processes were started, and make its communicator."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gossip.comm.startup.environment import check_facts, start_mpi
from gossip.comm.startup.inherited import say
from gossip.comm.startup.launchers import (
    TORCHRUN,
    Launched,
    child_of,
    launched,
    mpi_world,
    sign,
)
from gossip.errors import UserError, lookup

if TYPE_CHECKING:
    import torch

    from gossip.comm.base import Communicator


MakeCommunicator = Callable[[], "Communicator"]


class Wanted(NamedTuple):
    """What a communicator is to be for."""

    n: int
    """Learners, in all processes together."""
    device: str = "cpu"
    """Where the rows of this process will be: "cpu", "cuda" (torch's own choice), "cuda:1"."""
    wire: "torch.dtype | None" = None
    """The dtype in which rows travel; None: their own."""


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
    return choose_backend(backend, n, device, wire)()


def choose_backend(
    backend: str, n: int, device: str = "cpu", wire: "torch.dtype | None" = None
) -> MakeCommunicator:
    """What makes the communicator; see `connect`, whose mistakes are found here.

    Making one is collective; a mistake may be made by one process alone.
    """
    check_facts()
    return lookup(BACKENDS, backend, "backend")(Wanted(n, device, wire))


def _auto(wanted: Wanted) -> MakeCommunicator:
    from gossip.comm.startup.rendezvous import meets_by_mpi

    how = launched()
    if how is None or how.size == 1:
        return _stacked(wanted)
    if wanted.device.startswith("cuda"):
        return _nccl(wanted)
    return (_mpi if meets_by_mpi() else _gloo)(wanted)


def _stacked(wanted: Wanted) -> MakeCommunicator:
    how = launched()
    if how and how.size > 1:
        raise UserError(
            f"backend 'stacked' keeps all learners in one process, but {how.size} were started: "
            f"each would train all {wanted.n}; start one, or use another --backend"
        )
    if parent := child_of():
        say(
            f"gossip: note: process {parent.rank} of a job of {parent.size} has started this one, "
            "which is none of that job: it trains alone"
        )
    from gossip.comm.stacked import Stacked

    return lambda: Stacked(wanted.n, wanted.wire)


def _mpi(wanted: Wanted) -> MakeCommunicator:
    how = launched()
    if sign() is TORCHRUN:
        raise UserError(
            "backend 'mpi' needs processes that mpirun has started, but these were by torchrun; "
            "use mpirun, or --backend gloo"
        )
    if how and how.size > 1 and sign() is None and mpi_world() is None:
        raise UserError(
            f"backend 'mpi' needs processes that mpirun has started, but these {how.size} only "
            "know each other by torch.distributed; use mpirun, or --backend gloo"
        )
    if parent := child_of():
        raise UserError(
            f"backend 'mpi': process {parent.rank} of a job of {parent.size} has started this "
            "one, which is none of that job and has no MPI; use --backend stacked"
        )
    if how:
        check_divides(wanted.n, how.size)
    check_divides(wanted.n, start_mpi().COMM_WORLD.size)
    from gossip.comm.transports.mpi import Mpi

    return lambda: Mpi(wanted.n, device=wanted.device, wire=wanted.wire)


def _gloo(wanted: Wanted) -> MakeCommunicator:
    _check_torch("gloo")
    how = launched()
    check_divides(wanted.n, how.size if how else 1)
    from gossip.comm.transports.gloo import Gloo

    return lambda: Gloo(wanted.n, wire=wanted.wire)


def _nccl(wanted: Wanted) -> MakeCommunicator:
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
    from gossip.comm.transports.nccl import Nccl

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


BACKENDS: dict[str, Callable[[Wanted], MakeCommunicator]] = {
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
