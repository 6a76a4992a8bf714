"""A run that loses processes goes on from its checkpoints on fewer, to the same end."""

import json
import os
import re
import shlex
import signal
import sys

import pytest

from gossip import trace
from gossip.launch import mpirun as launch
from gossip.launch import restart
from gossip.storage import glance
from tests.faults.jobs import MPIRUN, NEED_MPI, START_SECONDS, left_behind, pid_of, wait_for

pytest.importorskip("mpi4py")
pytestmark = [*NEED_MPI, pytest.mark.timeout(200), pytest.mark.usefixtures("forking")]

ALONE = launch.kind_of(MPIRUN) == "openmpi" if MPIRUN else False
"""Whether the others can go on in the same job."""
LAUNCH = [sys.executable, "-m", "gossip.launch", "-n"]
OPTIONS = shlex.split(
    "--dataset digits --batch-size 10 --learners 4 --widths 8 --lr 0.1 --algorithm dpsgd"
    " --monitor-every 10"
)


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def assert_the_others_went_on(out, ended):
    """In the same job, two learners instead of four, and the trace says since when."""
    result = summary(out)
    assert result["processes"] == 1
    [[lost_at, learners]] = result["lost_at"]
    assert learners == result["learners"] == 2
    assert f"goes on at step {lost_at} of " in ended.text
    rows = trace.load(out)
    steps, marks = (trace.column(rows, name) for name in ("step", "learners"))
    assert not (marks[steps < lost_at] == 2).any()
    assert 2 in marks[steps >= lost_at]
    assert not (marks[steps >= lost_at] == 4).any()
    assert not [line for line in ended.told() if line.startswith("gossip.launch: ")]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_process_costs_the_steps_since_the_last_checkpoint(start_command, tmp_path, fault):
    steps = 400
    options = [*OPTIONS, "--steps", str(steps), "--checkpoint-every", "20"]
    if fault == signal.SIGSTOP:
        options += shlex.split("--on-failure continue --timeout 8")
    else:
        (tmp_path / "run.toml").write_text('[reliability]\non_failure = "continue"\n')
        options += ["--config", "run.toml"]
    options += shlex.split("--straggler constant --straggler-options s=2 learners=0")
    options += ["--straggler-seconds", "0.01"]  # slow enough to be killed on its way
    job = start_command([*LAUNCH, "2", *options])
    folders = tmp_path / "runs"
    wait_for(job, lambda: [f for f in folders.glob("*") if glance.checkpoints(f).get("", 0) >= 60])
    [out] = folders.iterdir()
    os.kill(pid_of(job, 1), fault)
    ended = job.end(2 * START_SECONDS)
    assert ended.code == 0, ended.text
    rows = trace.load(out)
    assert rows["step"].to_pylist() == list(range(steps + 1))
    if ALONE and "lost_at" in summary(out):
        assert_the_others_went_on(out, ended)
        return
    told = [line for line in ended.told() if line.startswith("gossip.launch: ")]
    assert len(told) == 1
    assert told[0].endswith(" on 1 process")
    assert ("code 75" in told[0]) == (out / "stacks.txt").exists() == (fault == signal.SIGSTOP)
    result = summary(out)
    assert result["processes"] == 1
    [start] = result["resumed_at"]
    assert f" from step {start} on " in told[0]
    assert left_behind(tmp_path) == []


@pytest.mark.one_mpi
def test_a_run_that_is_not_to_continue_ends(start_command, tmp_path):
    out = tmp_path / "out"
    options = [*OPTIONS, "--steps", "100000", "--checkpoint-every", "20", "--out", str(out)]
    job = start_command([*LAUNCH, "2", *options])
    wait_for(job, lambda: glance.checkpoints(out))
    os.kill(pid_of(job, 1), signal.SIGKILL)
    ended = job.end()
    assert ended.code in restart.LOST
    assert not [line for line in ended.told() if line.startswith("gossip.launch")]


def test_learners_that_wait_for_nobody_do_not_wait_for_ever(start_command, tmp_path):
    """AD-PSGD's others go on without a stopped learner, until they have to pause together."""
    out = tmp_path / "out"
    options = shlex.split("--dataset digits --batch-size 10 --learners 2 --widths 8 --lr 0.1")
    options += shlex.split("--algorithm ad-psgd --monitor-every 100 --steps 1000000 --timeout 3")
    job = start_command([*LAUNCH, "2", *options, "--checkpoint-every", "100", "--out", str(out)])
    wait_for(job, lambda: glance.checkpoints(out))
    os.kill(pid_of(job, 1), signal.SIGSTOP)
    ended = job.end(START_SECONDS)
    assert ended.code == os.EX_TEMPFAIL
    (seconds,) = re.findall(r" has waited (\S+) s ", ended.text)
    assert float(seconds) >= 3
    assert (out / "stacks.txt").exists()
    assert left_behind(tmp_path) == []
