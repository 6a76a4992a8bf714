"""A user's own script under mpirun: what ends one process ends the job, with one message."""

import os
import re
import sys
from textwrap import dedent

import pytest

from gossip.comm.startup.asked import LAUNCHER
from tests.faults import jobs

pytestmark = jobs.NEED_MPI

SCRIPT = """
    import os, signal, sys, time
    from pathlib import Path
    import torch
    from mpi4py import MPI
    from gossip import Gossip

    rank, deed = MPI.COMM_WORLD.rank, sys.argv[1]
    if deed == "early" and rank == 1:
        raise ValueError("no such file")
    module = torch.nn.Linear(3, 3)
    if deed == "mistake":
        module.requires_grad_(False)
    if deed == "asked early":
        os.kill(os.getpid(), signal.SIGUSR1)
    model = Gossip(module, "ring", timeout=2.0 if deed in ("sleep", "left out") else 600.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 10_000 if deed in ("sleep", "interrupt", "fail") else 20
    for t in range(steps):
        if t == 17 and rank == 1 and deed == "fail":
            raise ValueError("that gradient is no good")
        if t == 17 and rank == 1 and deed == "sleep":
            time.sleep(60)
        if t == 17 and rank == 1 and deed == "asked":
            os.kill(os.getpid(), signal.SIGUSR1)
        if t == 17 and rank == 1 and deed == "leave":
            break
        if t == 17 and rank == 1 and deed == "left out":
            continue
        if t == 17 and deed == "another" and rank == 1:
            with model.average():
                pass
        elif t == 17 and deed == "another":
            model.monitor()
        optimizer.zero_grad()
        loss = model(torch.ones(3)).sum()
        loss.backward()
        if deed == "end" and rank == 1 and t == steps - 1:
            optimizer.zero_grad()
            break
        optimizer.step()
    if deed == "end" and rank == 0:
        model(torch.ones(3))
    if deed == "left out":
        with model.average():
            pass
    print("done", flush=True)
"""


@pytest.fixture
def start_script(start_command, tmp_path, forking):
    """Starts the script under mpirun, where a process does the deed."""
    script = tmp_path / "script.py"
    script.write_text(dedent(SCRIPT))

    def start(deed, processes=2, **environment):
        command = [jobs.MPIRUN, "-n", str(processes), sys.executable, str(script), deed]
        return start_command(command, **environment).end(jobs.START_SECONDS)

    return start


@pytest.mark.one_mpi
def test_an_exception_on_one_process_ends_the_job_with_its_traceback(start_script):
    ended = start_script("fail", **jobs.AS_USERS)  # with torch's compiler
    assert ended.code == 1
    assert ended.text.count("Traceback") == 1
    assert "raise ValueError" in ended.text
    [line] = ended.told()
    assert line.startswith("learner 1 (process 1 on host")
    assert line.endswith("failed at step 17 in training: ValueError: that gradient is no good")


def test_an_exception_before_the_wrapper_ends_the_job_too(start_script):
    ended = start_script("early")
    assert ended.code == 1
    assert ended.text.count("ValueError: no such file") == 1


@pytest.mark.one_mpi
def test_a_mistake_of_all_is_said_once(start_script):
    ended = start_script("mistake")
    assert ended.code == 1
    assert "Traceback" not in ended.text
    assert ended.text.count("script.py: Linear has no parameter that needs a gradient") == 1


@pytest.mark.one_mpi
def test_a_message_that_does_not_come_ends_the_job_and_names_the_culprit(start_script):
    ended = start_script("sleep")
    assert ended.code == os.EX_TEMPFAIL
    assert "furthest behind is learner 1 (process 1 on host" in ended.text
    assert "time.sleep(60)" not in ended.told()[0]


def test_a_script_that_ends_before_the_others_ends_the_job(start_script):
    """As with fewer batches on one process, or by sys.exit; long before the time-out."""
    ended = start_script("leave")
    assert ended.code == 1
    line = ended.told()[0]
    assert jobs.seconds_waited(line) >= 10
    assert " s at step 17 for the row of learner " in line
    assert ": learner 1 (process 1 on host" in line
    assert " has ended at step 17 in training, without that; " in line


@pytest.mark.one_mpi
def test_of_processes_that_wait_in_different_calls_both_are_told(start_script):
    """A batch that one leaves out by `continue`: it comes to average() a step before the others."""
    ended = start_script("left out", 3)
    assert ended.code == os.EX_TEMPFAIL
    line = ended.told()[0]
    assert " s at step 19 for " in line
    assert re.search(r"learner 1 \(process 1 on host \S+\) (is )?in average\(\) of Linear", line)
    assert re.search(r"learner [02] \(process [02] on host \S+\) (is )?in optimizer.step\(\)", line)
    assert "all have to make the same calls in the same order" in line


@pytest.mark.one_mpi
def test_two_calls_of_which_both_look_at_all_learners_are_told_at_once(start_script):
    ended = start_script("another", 3)
    assert ended.code == 1
    assert "Traceback" not in ended.text
    assert ended.text.count("monitor() at step 17 on processes 0, 2 (learners 0, 2)") == 1
    assert "average() at step 17 on process 1 (learner 1); all make the same calls" in ended.text


def test_a_script_ends_whatever_its_learners_have_begun_and_not_finished(start_script):
    ended = start_script("end")
    assert (ended.code, ended.text.count("done")) == (0, 2)
    assert ended.told() == []


@pytest.mark.one_mpi
@pytest.mark.parametrize(
    ("deed", "says"),
    [
        ("asked early", "script.py: ended at once by Ctrl-C"),
        ("asked", "learner 1 (process 1 on host "),
    ],
)
def test_the_launchers_request_is_heard_as_ctrl_c(deed, says, start_script):
    """MPI has put a handler of its own in place of Python's, which the request would not reach."""
    ended = start_script(deed, **{LAUNCHER: jobs.KIND})
    assert ended.code == 130
    assert "Traceback" not in ended.text
    assert "done" not in ended.text
    assert ended.text.count(says) == 1
