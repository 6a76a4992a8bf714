"""What happens to a job when something happens to one of its processes, or to the launcher."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.faults.jobs import CRASHED, KILLED, LEFT, MPICH, NEED_MPI, START_SECONDS, signalled

pytest.importorskip("mpi4py")
pytestmark = NEED_MPI

JOB = Path(__file__).with_name("job.py")


@pytest.mark.parametrize("backend", ["light", pytest.param("auto", marks=pytest.mark.one_mpi)])
def test_an_exception_is_told_once_with_learner_and_step(start, backend):
    ended = start("fail", "1", JOB_BACKEND=backend).end(START_SECONDS)
    assert ended.code == 1
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1 on host ")
    assert line.endswith("failed at step 17 in gradient: ValueError: that gradient is no good")
    assert ended.text.count("Traceback") == 1
    assert line in (ended.folder / "end.txt").read_text()


@pytest.mark.one_mpi
def test_the_same_exception_everywhere_is_told_once(start):
    ended = start("fail", "-1").end(START_SECONDS)
    assert ended.code == 1
    assert len(ended.told()) == 1
    assert ended.text.count("Traceback") == 1


def test_a_mistake_that_only_one_process_sees_ends_all(start):
    ended = start("mistake", "1").end(START_SECONDS)
    assert ended.code == 2
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1")
    assert "dataset 'mnits' is not known" in line
    assert "Traceback" not in ended.text


@pytest.mark.one_mpi
def test_a_mistake_that_all_processes_see_is_told_once(start):
    ended = start("mistake", "-1").end(START_SECONDS)
    assert ended.code == 2
    assert ended.told() == ["error: dataset 'mnits' is not known"]


def test_sys_exit_on_one_process_ends_all(start):
    ended = start("exit", "1").end(START_SECONDS)
    assert ended.code == 1
    [line] = ended.told()
    assert "process 1" in line
    assert "SystemExit" in line


@pytest.mark.parametrize(("deed", "codes"), [("crash", CRASHED), ("leave", LEFT)])
def test_a_process_that_dies_without_an_exception_is_named(start, deed, codes):
    ended = start(deed, "1").end(START_SECONDS)
    assert ended.code in codes
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1")
    assert "died at step 17 in gradient" in line


@pytest.mark.parametrize(("backend", "culprit"), [("light", 0), ("light", 2), ("auto", 1)])
def test_a_killed_process_is_named(start, backend, culprit):
    job = start("nothing", JOB_BACKEND=backend)
    os.kill(job.pids()[culprit], signal.SIGKILL)
    ended = job.end()
    assert ended.code == KILLED
    [line] = ended.told()
    assert line.startswith(f"learners {2 * culprit}-{2 * culprit + 1} (process {culprit}")
    assert "died at step" in line
    assert line in (ended.folder / "end.txt").read_text()


def test_a_process_that_cannot_join_its_host_ends_all(start):
    ended = start("blocked", "1").end(START_SECONDS)
    assert ended.code == 1
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1")
    assert line.endswith("failed at step 0 in start: OSError: [Errno 28] No space left on device")


def test_sigterm_to_mpirun_is_told_once(start):
    job = start("nothing")
    job.pids()
    job.process.send_signal(signal.SIGTERM)
    ended = job.end()
    assert ended.code == signalled(signal.SIGTERM)
    [line] = ended.told()
    assert "got SIGTERM at step" in line
    assert (ended.folder / "last_words").exists()


def test_sigterm_ends_a_process_that_does_not_come_back(start):
    job = start("sleep", "1")
    job.pids()
    job.process.send_signal(signal.SIGTERM)
    ended = job.end()
    # The one that does not come back is killed: mpirun gives the code of whichever it sees first.
    assert ended.code in (signalled(signal.SIGTERM), KILLED)
    assert len(ended.told()) == 1
    assert (ended.folder / "last_words").exists()


def test_sigint_to_mpirun_leaves_a_readable_run(start):
    job = start("nothing")
    job.pids()
    job.process.send_signal(signal.SIGINT)
    ended = job.end()
    assert ended.code == signalled(signal.SIGINT)
    assert len(ended.told()) == 1
    # Open MPI's mpirun kills before the run can be closed.
    assert (ended.folder / ("closed" if MPICH else "last_words")).exists()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_launcher_lets_the_run_close(start_launcher, signum, code):
    job = start_launcher("nothing")
    job.pids()
    job.process.send_signal(signum)
    ended = job.end()
    assert ended.code == code
    assert len(ended.told()) == 1
    assert (ended.folder / "closed").exists()


def test_the_launcher_passes_the_exit_code_on(start_launcher):
    assert start_launcher("mistake", "-1").end(START_SECONDS).code == 2


def test_ctrl_c_twice_ends_a_process_that_does_not_come_back(start_launcher):
    job = start_launcher("sleep", "1")
    job.pids()
    for _ in range(2):
        job.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert job.end().code == 130


@pytest.mark.one_mpi
def test_a_single_process_closes_on_ctrl_c(start_command):
    job = start_command([sys.executable, str(JOB), "nothing"])
    job.pids()
    job.process.send_signal(signal.SIGINT)
    ended = job.end()
    assert ended.code == 130
    assert (ended.folder / "closed").exists()


def test_a_killed_mpirun_leaves_nobody_behind(start):
    job = start("nothing")
    job.pids()
    job.process.kill()
    job.end()
