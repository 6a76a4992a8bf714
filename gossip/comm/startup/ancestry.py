"""Whether a process of a job has started this one: a child of a rank is not a rank.

It inherits the environment in which the launcher speaks to its parent, and nothing else of it.
"""

import os
import stat
from functools import cache
from pathlib import Path

CONNECTION = "PMI_FD"
"""Number of the open file by which MPICH's launcher, and Slurm's, speak with a process."""
LIBRARIES = ("libmpi", "libtorch")
"""What a program of a job has loaded, and a shell that only starts one has not."""

JobVariables = tuple[tuple[str, str | None], ...]
"""Names of environment variables with their values."""


def is_child(names: tuple[str, ...]) -> bool:
    """Whether an ancestor, itself of the same job, has started this process by itself.

    A shell between the launcher and this process is none of the job: it has loaded neither MPI
    nor torch.

    Args:
        names: of the environment variables that tell a process of one job from all others.
    """
    return _is_child(os.getpid(), tuple((name, os.environ.get(name)) for name in names))


@cache  # as it was at first: MPI may close its connection
def _is_child(pid: int, job: JobVariables) -> bool:
    number = dict(job).get(CONNECTION)
    if number is not None and not _is_socket(number):
        return True  # Python's subprocess has closed it
    try:
        mine, parent = _connection(pid, number), _parent(pid)
        while parent > 1 and _same(parent, job) and _connection(parent, number) == mine:
            if any(name in Path(f"/proc/{parent}/maps").read_text() for name in LIBRARIES):
                return True
            parent = _parent(parent)
    except OSError:  # no /proc, or a stranger's process
        pass
    return False


def _is_socket(number: str) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(int(number)).st_mode)
    except (OSError, ValueError):
        return False


def _connection(pid: int, number: str | None) -> str | None:
    """Which connection to the launcher a process has, such as "socket:[12959]"."""
    return None if number is None else str(Path(f"/proc/{pid}/fd/{number}").readlink())


def _same(pid: int, job: JobVariables) -> bool:
    """Whether a process began with these values in its environment."""
    lines = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    began = {name: value for name, _, value in (line.partition("=") for line in lines)}
    return all(began.get(name) == value for name, value in job)


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return int(text.rpartition(")")[2].split()[1])
