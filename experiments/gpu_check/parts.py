"""The parts, in order, and how each is started."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from gossip.errors import UserError
from gossip.launch.mpirun import find_mpirun

MODULES = "experiments.gpu_check"


@dataclass(frozen=True)
class Part:
    """Something that is tried in processes of its own."""

    name: str
    """Of its file, and in the table."""
    module: str
    seconds: float
    """Time limit, the start of the processes included."""
    learners: int = 1
    processes: int = 0
    """Wanted; 0: it is a single process that needs no launcher."""
    extension: str = "csv"

    def file(self, out: Path) -> Path:
        """What it writes."""
        return out / f"{self.name}.{self.extension}"


FACTS = Part("machine", "facts", 60, extension="json")


def probe(processes: int) -> Part:
    """Whether so many processes can work together."""
    return Part(f"probe-{processes}", "probe", 60, processes, processes)


def parts(*, smoke: bool) -> list[Part]:
    """What is tried once the machine is known; what matters most comes first."""
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
    """What starts a part."""
    module = f"{MODULES}.{part.module}"
    start = launcher(processes, module) if part.processes else [sys.executable, "-m", module]
    return [*start, "--learners", str(part.learners), *options]


def launcher(processes: int, module: str) -> list[str]:
    """By MPI where it is installed, else by torchrun, which needs only torch."""
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
