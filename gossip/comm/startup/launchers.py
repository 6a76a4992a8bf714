"""Detection of the processes of a job: by its launcher's variables, and by what is initialised."""

import os
import sys
from dataclasses import dataclass
from typing import NamedTuple

from gossip.comm.startup.ancestry import CONNECTION, is_child


@dataclass(frozen=True)
class Launched:
    """This process's place among those of its job, before there is a communicator."""

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


TORCHRUN = Sign("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK")
PRRTE = Sign(
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
)
HYDRA = Sign("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID")
"""MPICH's, and srun --mpi=pmi2."""
SLURM = Sign("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID")
"""Set by srun only."""
IDENTITY = {
    TORCHRUN: (*TORCHRUN, "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    PRRTE: (*PRRTE, "PMIX_NAMESPACE"),
    HYDRA: (*HYDRA, CONNECTION),
    SLURM: (*SLURM, "SLURM_JOB_ID", "SLURM_STEP_ID"),
}
"""What tells a process of one job from all others."""
SIGNS = (TORCHRUN, PRRTE, HYDRA, SLURM)
"""The innermost first: mpirun and srun may have started torchrun on each host."""


AGENT = "TORCHELASTIC_RUN_ID"
"""Set by torchrun itself, and not by whoever only sets the same four names."""
ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
"""With a rank and a size all that torch's env:// asks for."""
SHOWN = {TORCHRUN: "torchrun", PRRTE: "Open MPI's mpirun", HYDRA: "mpirun", SLURM: "srun"}


def sign() -> Sign | None:
    """Which launcher started this process; None if nothing says that one did."""
    return next(iter(_signs()), None)


def launched() -> Launched | None:
    """This process's place in its job; None if nothing says that there are others.

    What exists counts before what is said: an initialised torch.distributed, then what a launcher
    says in the environment, then an initialised MPI, for a launcher that we do not know. Whether
    they say the same, `contradiction` tells.
    """
    return _group() or from_environment() or mpi_world()


def from_environment() -> Launched | None:
    """What the launcher says in the environment; None for a process that no launcher started."""
    by = sign()
    return None if by is None else _as_said(by)


def by_srun() -> bool:
    """Whether srun has started this process, with words for an MPI or without, and no mpirun."""
    words = SLURM.rank in os.environ and HYDRA.local_rank not in os.environ
    return sign() is SLURM or (sign() is HYDRA and words)


def contradiction() -> str | None:
    """How what is said and what exists differ, in a sentence; None if all of it is the same."""
    signs = _signs()
    if signs[:1] == [TORCHRUN] and AGENT in os.environ:
        signs = signs[:1]  # mpirun or srun may have started torchrun on each host
    elif {PRRTE, HYDRA} & {*signs}:
        signs = [by for by in signs if by is not SLURM]  # or mpirun by srun
    told = {f"{SHOWN[by]} ({by.rank}, {by.size})": _as_said(by) for by in signs}
    if group := _group():
        told["the initialised torch.distributed"] = group
    if world := mpi_world():
        told["the initialised MPI"] = world
    if len({(how.rank, how.size) for how in told.values()}) <= 1:
        return None
    texts = (f"process {how.rank} of {how.size} by {who}" for who, how in told.items())
    return (
        f"this is {', but '.join(texts)}: start the processes in one way, and unset what is left "
        "of another in the environment"
    )


def child_of() -> Launched | None:
    """The process of a job that has started this one, which is none of that job."""
    signs = _written()
    return _as_said(signs[0]) if signs and is_child(IDENTITY[signs[0]]) else None


def _signs() -> list[Sign]:
    """The launchers that say how they started this process, the innermost first."""
    return [] if child_of() else _written()


def _written() -> list[Sign]:
    """The launchers whose words are in the environment, the innermost first."""
    found = []
    for sign in SIGNS:
        # Some clusters set RANK and WORLD_SIZE for other purposes; torchrun sets all four.
        needed = sign[:2]
        if sign is TORCHRUN and any(name not in os.environ for name in ADDRESS):
            needed = sign
        if all(_number(name) is not None for name in needed):
            found.append(sign)
    return found


def _as_said(by: Sign) -> Launched:
    rank, size, local_size, local_rank = map(_number, by)
    step_rank, step_size, *local = map(_number, SLURM)
    if by is HYDRA and local_rank is None and (step_rank, step_size) == (rank, size):
        local_size, local_rank = local  # srun --mpi=pmi2 leaves these words to Slurm's own
    assert rank is not None, "a sign has both"
    assert size is not None, "a sign has both"
    return Launched(rank, size, local_size, local_rank)


def _group() -> Launched | None:
    """The processes of torch.distributed, if the user's program has started it."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    by = sign()
    how = Launched(dist.get_rank(), dist.get_world_size())
    said = None if by is None else _as_said(by)
    same = said is not None and (said.rank, said.size) == (how.rank, how.size)
    return said if same else how  # which knows of this host, too


def mpi_world() -> Launched | None:
    """The processes of an initialised MPI, if they are several."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized() or child_of():
        return None
    world = mpi.COMM_WORLD
    return Launched(world.rank, world.size) if world.size > 1 else None


def _number(name: str) -> int | None:
    """The number in an environment variable, if there is one."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None
