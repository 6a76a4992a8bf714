"""Detection of the launcher (mpirun, torchrun, srun) from its environment variables."""

import os
from dataclasses import dataclass
from typing import NamedTuple


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
SIGNS = (TORCHRUN, PRRTE, HYDRA, SLURM)
"""The innermost first: mpirun and srun may have started torchrun on each host."""


def sign() -> Sign | None:
    """Which launcher started this process; None if nothing says that one did."""
    for sign in SIGNS:
        # Some clusters set RANK and WORLD_SIZE for other purposes; torchrun sets all four.
        needed = sign if sign is TORCHRUN else sign[:2]
        if all(_number(name) is not None for name in needed):
            return sign
    return None


def launched() -> Launched | None:
    """How a launcher started this process; None if nothing says that one did."""
    by = sign()
    if by is None:
        return None
    rank, size, local_size, local_rank = map(_number, by)
    assert rank is not None, "a sign has both"
    assert size is not None, "a sign has both"
    return Launched(rank, size, local_size, local_rank)


def _number(name: str) -> int | None:
    """The number in an environment variable, if there is one."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None
