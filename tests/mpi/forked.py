"""tests/mpi in many processes of one job, which are forked: forked.py PROCESSES [PYTEST'S WORDS].

The imports of sixteen processes take longer than their tests. Jobs of two processes are started as
usual; see `tests.forked`.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.forked import serve, take_place


def imports() -> None:
    """What tests/mpi imports, but for the tests themselves and MPI."""
    import hypothesis.strategies
    import torch
    from torch.distributed import fsdp

    from gossip import Gossip, run
    from gossip.comm.transports import gloo
    from gossip.storage import folder
    from tests import fits, problems
    from tests.rates import cases

    folder.provenance()
    torch.optim.SGD([torch.zeros(1)])  # imports much on its own
    assert all((hypothesis, fsdp, Gossip, run, gloo, fits, problems, cases))


def main(processes: str, words: list[str]) -> int:
    """Have the job started, import, and serve it."""
    folder = tempfile.mkdtemp(prefix="gossip-tests-")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/socket")
    listener.listen(int(processes))
    launch = [sys.executable, "-m", "gossip.launch", "-n", processes]
    words = ["--module", "tests.stand_in", "--", f"{folder}/socket", *words]
    job = subprocess.Popen([*launch, *words], cwd=Path(__file__).parents[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher hears it, and ends the job
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as tests/conftest.py, which comes later
    imports()
    order = serve(listener, lambda: job.poll() is not None)
    if order is not None:
        job.returncode = 0  # it is not this process's to wait for
        take_place(order)
        # Hypothesis is a plugin, whose assertions pytest would rewrite.
        return pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *order.words])
    shutil.rmtree(folder)
    return job.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
