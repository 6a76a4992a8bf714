"""A process that is killed in any phase of a round ends the job, which says who it was."""

import shlex
import sys

import pytest

from gossip.launch import restart
from tests.faults.command_runs import launch
from tests.faults.jobs import MPIRUN

PHASES = {
    "inner step": ("streaming-diloco", "gradient:8"),
    "inner step, an average under way": ("streaming-diloco", "gradient:9"),
    "start of an average": ("streaming-diloco", "started-average:30"),
    "average of a round": ("local-sgd", "average:30"),
    "payloads of a round": ("sparseloco", "exchange:3"),
    "payloads of a step": ("ef21", "gather:12"),
}
"""Phase -> the method, and the call in which process 1 of 2 is killed: behind the first row, all
averages are those of rounds."""
ON_EACH_MPI = "start of an average"
"""A collective call; a death elsewhere ends a job of the second MPI as in test_kills.py."""
OPTIONS = shlex.split(
    "--dataset digits --batch-size 10 --learners 4 --model softmax --lr 0.1 --steps 4000"
    " --monitor cheap --monitor-every 5000 --timeout 0"
)
"""Without a limit on waiting: who is not told waits for ever."""
ROUNDS = {
    "streaming-diloco": ("every=4", "fragments=2", "delay=1"),
    "local-sgd": ("every=4",),
    "sparseloco": ("every=4",),
    "ef21": (),
}
LONG_SECONDS = 60.0
"""A whole job, on a machine as slow as `patience` knows."""


@pytest.mark.slow
@pytest.mark.needs_mpi
@pytest.mark.usefixtures("forking")
@pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param(phase, marks=[] if way is PHASES[ON_EACH_MPI] else pytest.mark.one_mpi)
        for phase, way in PHASES.items()
    ],
)
def test_a_kill_in_a_phase_of_a_round_ends_the_job(phase, start_command, tmp_path):
    name, deed = PHASES[phase]
    given = ["--algorithm-options", *ROUNDS[name]] if ROUNDS[name] else []
    options = [*OPTIONS, "--algorithm", name, *given, "--out", str(tmp_path / "run")]
    ended = start_command(launch(2, *options, deed=f"{deed}:KILL:1")).end(LONG_SECONDS)
    assert ended.code in restart.LOST
    [line] = [line for line in ended.told() if line.startswith("learner")]
    assert line.startswith("learners 2-3 (process 1 on host ")
    assert "died at step" in line
