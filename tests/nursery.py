"""The process from which programs of the tests are forked: it has imported what they import.

What takes most of a small program's time is the import of torch; a forked process ends, and is
killed, as any other. `python -m tests.nursery LISTENER` serves whoever asks at that socket until
stdin ends; see `tests.forked`, and `tests.stand_in` for who asks. `make test` has one for each
environment, and pytest alone starts its own.
"""

import atexit
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.forked import Order, serve, take_place
from tests.stand_in import FORKED, NURSERY, place
from tests.start import with_start

ROOT = Path(__file__).parents[1]
WAITING = 64
"""Most who ask at once: the processes of two jobs."""


def imports() -> None:
    """All that many programs import on their way."""
    import hypothesis.strategies
    import matplotlib.backends.backend_agg
    import matplotlib.style
    import pyarrow.compute
    import torch
    from torch.distributed import fsdp

    from gossip import run  # not Gossip: it asks under which launcher it is imported
    from gossip.comm.transports import gloo
    from gossip.report import figures
    from gossip.storage import folder
    from tests import fits, problems
    from tests.rates import cases

    folder.provenance()
    torch.optim.SGD([torch.zeros(1)])  # imports much on its own
    theirs = (hypothesis, matplotlib, pyarrow, fsdp)
    assert all((*theirs, run, gloo, figures, fits, problems, cases))


@cache
def folder() -> Path:
    """Where a nursery of this environment listens; else one is started."""
    if NURSERY not in os.environ:
        os.environ[NURSERY] = tempfile.mkdtemp(prefix="gossip-tests-")
        atexit.register(shutil.rmtree, os.environ[NURSERY], ignore_errors=True)
    here = Path(os.environ[NURSERY])
    if not place(here).exists():
        atexit.register(start(here).communicate)  # its stdin ends with this process
    return here


def start(where: Path, python: str = sys.executable) -> "subprocess.Popen[bytes]":
    """The nursery of an environment, which listens from now on; `where` is its NURSERY."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    clean.pop(FORKED, None)
    clean |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", NURSERY: str(where)}
    clean |= with_start(clean)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place(where, Path(python).parents[1])))
        listener.listen(WAITING)
        number = listener.fileno()
        command = [python, "-u", "-m", "tests.nursery", str(number)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, env=clean, cwd=ROOT, pass_fds=[number]
        )


@contextmanager
def forking(what: str = "programs") -> Generator[None]:
    """Programs that a test starts in here are forked, see `tests.stand_in.FORKED`."""
    if sys.platform != "linux":
        yield
        return
    folder()
    with said(FORKED, what):
        yield


@contextmanager
def said(name: str, value: str) -> Generator[None]:
    """A variable of the environment, which is what it was before and after."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def spent_at(nurseries: str | Path, prefix: str | Path = sys.prefix) -> Path:
    """Where a nursery says at its end how many CPU seconds the parts have spent by it."""
    return place(nurseries, prefix).with_suffix(".json")


def become(order: Order) -> None:
    """Run a program as Python does that is started with its words."""
    kind, *words = order.words if order.words[0] in ("-m", "-c") else ["", *order.words]
    sys.argv = list(words)
    first = order.folder if kind else str(Path(words[0]).parent)
    own = filter(None, order.environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = dict.fromkeys([first, *own, *sys.path[1:]])
    match kind:
        case "-m":
            # Of a module that the nursery has imported there is another one now, as its program.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        case "-c":
            sys.modules["__main__"] = ModuleType("__main__")
            exec(words[0], vars(sys.modules["__main__"]))
        case _:
            runpy.run_path(words[0], run_name="__main__")


def main() -> None:
    """Serve, and in a process that has been forked, become what was asked for."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started it hears it, and ends it
    imports()
    served = serve(listener, sys.stdin.fileno())
    if isinstance(served, Order):
        take_place(served)
        become(served)
    else:
        spent_at(os.environ[NURSERY]).write_text(json.dumps(served))


if __name__ == "__main__":
    main()
