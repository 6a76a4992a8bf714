"""The list of parts, in order, with the command that starts each."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from gossip.errors import UserError
from gossip.launch.mpirun import find_mpirun

MODULES = "experiments.gpu_check"


@dataclass(frozen=True)
class Part:
    """A part of the check, in processes of its own."""

    name: str
    """Name of its file, and in the table."""
    module: str
    seconds: float
    """Time limit in seconds, the start of the processes included."""
    learners: int = 1
    processes: int = 0
    """Number of processes; 0: a single one that needs no launcher."""
    extension: str = "csv"

    def file(self, out: Path) -> Path:
        """The file that it writes."""
        return out / f"{self.name}.{self.extension}"


FACTS = Part("machine", "facts", 60, extension="json")


def probe(processes: int) -> Part:
    """The part that finds out whether this number of processes can work together."""
    return Part(f"probe-{processes}", "probe", 60, processes, processes)


def parts(*, smoke: bool) -> list[Part]:
    """The parts that are run once the machine is known; the most important come first."""
    if smoke:
        several = [_equality(4, 2, 60), Part("overlap", "overlap", 60, 2, 2)]
    else:
        several = [
            _equality(4, 4, 90),
            _equality(16, 16, 150),
            Part("overlap", "overlap", 60, 4, 4),
        ]
    alone = [Part(name, name, 80) for name in ("stacked", "switches")]
    return [*several, *alone, Part("compiled", "compiled", 150)]


def _equality(learners: int, processes: int, seconds: float) -> Part:
    return Part(f"equality-{learners}", "equality", seconds, learners, processes)


def command(part: Part, processes: int, options: list[str]) -> list[str]:
    """The command that starts a part."""
    module = f"{MODULES}.{part.module}"
    start = launcher(processes, module) if part.processes else [sys.executable, "-m", module]
    return [*start, "--learners", str(part.learners), *options]


def launcher(processes: int, module: str) -> list[str]:
    """The launcher of a part: MPI where it is installed, else torchrun, which needs torch alone."""
    if importlib.util.find_spec("mpi4py") and _has_mpirun():
        launch = ["gossip.launch", "-n", str(processes), "--module", module, "--"]
    else:
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        launch = [*torchrun, "-m", "--", module]
    return [sys.executable, "-m", *launch]


def _has_mpirun() -> bool:
    try:
        find_mpirun()
    except UserError:
        return False
    return True
