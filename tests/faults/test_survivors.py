"""Where the MPI can, learners go on without a process that is lost, in the same job."""

import sys
from pathlib import Path

import pytest

from gossip.launch import mpirun as launch
from tests.faults.jobs import MPIRUN, NEED_MPI, NUM_PROCESSES, START_SECONDS

pytest.importorskip("mpi4py")
pytestmark = [*NEED_MPI, pytest.mark.usefixtures("forking")]

RING = str(Path(__file__).with_name("survivors.py"))


@pytest.mark.parametrize("culprit", range(NUM_PROCESSES))
def test_survivors_go_on_among_themselves(start_command, culprit):
    if not launch.kind_of(MPIRUN).startswith("openmpi"):
        pytest.skip("only Open MPI can")
    command = [MPIRUN, "--with-ft", "ulfm", "-n", str(NUM_PROCESSES), sys.executable, RING]
    ended = start_command([*command, str(culprit)]).end(START_SECONDS)
    left = sorted(line for line in ended.text.splitlines() if line.startswith("left: "))
    processes = NUM_PROCESSES - 1
    assert left == [
        f"left: process {p} of {processes}, n={2 * processes}" for p in range(processes)
    ]


def test_there_are_no_survivors_where_the_mpi_cannot_tell(start_command, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from gossip.comm.transports.mpi import Mpi; print('left:', Mpi(2).survivors())"
    )
    ended = start_command([sys.executable, str(script)]).end(START_SECONDS)
    assert "left: None" in ended.text
