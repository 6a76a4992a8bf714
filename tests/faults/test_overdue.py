"""A message that does not come ends the job; a pause does not."""

import os
import re
import signal
import time

import pytest

from tests.faults.jobs import END_SECONDS, NEED_MPI, START_SECONDS, seconds_waited
from tests.machine import patience

pytest.importorskip("mpi4py")
pytestmark = NEED_MPI

TIMEOUT = 2.0
PAUSE_SECONDS = 2.0


@pytest.mark.parametrize(("backend", "culprit"), [("light", 0), ("light", 1), ("auto", 1)])
def test_a_stopped_process_ends_the_job(start, backend, culprit):
    job = start("stop", str(culprit), JOB_BACKEND=backend, JOB_TIMEOUT=str(TIMEOUT))
    job.pids()
    ended = job.end(TIMEOUT + END_SECONDS)
    assert ended.code == os.EX_TEMPFAIL
    assert ended.seconds > TIMEOUT / 2
    [line] = ended.told()
    assert seconds_waited(line) >= TIMEOUT
    # In the light ring not all need its row; at a step with a talk about whether to stop, its word.
    what = "(the row of|a word from)" if backend == "light" else "the row of"
    assert re.search(f" for {what} ", line)
    learners = f"learners {2 * culprit}-{2 * culprit + 1} (process {culprit} on host "
    assert f": furthest behind is {learners}" in line
    assert " (stopped); stacks in " in line
    assert line.endswith(f"; stacks in {ended.folder / 'stacks.txt'}; the job ends")
    assert line in (ended.folder / "end.txt").read_text()


@pytest.mark.one_mpi
def test_the_stacks_of_all_processes_are_kept(start):
    job = start("sleep", "1", JOB_TIMEOUT=str(TIMEOUT))
    pids = job.pids()
    ended = job.end(TIMEOUT + END_SECONDS)
    assert "furthest behind is learners 2-3 (process 1 " in ended.told()[0]
    text = (ended.folder / "stacks.txt").read_text()
    assert all(f", pid {pid}:" in text for pid in pids)
    assert text.count("Current thread") + text.count("most recent call first") >= len(pids)
    assert "no stacks" not in text
    assert "job.py" in text


@pytest.mark.one_mpi
def test_an_overdue_collective_says_what_it_is(start):
    job = start("absent", "1", JOB_BACKEND="auto", JOB_TIMEOUT=str(TIMEOUT))
    job.pids()
    ended = job.end(TIMEOUT + END_SECONDS)
    assert ended.code == os.EX_TEMPFAIL
    [line] = ended.told()
    assert " for a word from every process: furthest behind is learners 2-3" in line


@pytest.mark.one_mpi
def test_a_pause_shorter_than_the_time_out_changes_nothing(start):
    closed = []
    for pause in (False, True):
        job = start("nothing", JOB_TIMEOUT=str(patience(3 * PAUSE_SECONDS)), JOB_STEPS="200")
        pids = job.pids()
        if pause:
            os.kill(pids[1], signal.SIGSTOP)
            time.sleep(PAUSE_SECONDS)
            os.kill(pids[1], signal.SIGCONT)
        ended = job.end(START_SECONDS)
        assert ended.code == 0
        assert ended.told() == []
        closed.append((ended.folder / "closed").read_text())
        (ended.folder / "ready").unlink()
    assert closed[0] == closed[1]


@pytest.mark.one_mpi
def test_a_process_that_was_stopped_itself_has_not_waited(start):
    limit = patience(TIMEOUT / 2)
    job = start("nothing", JOB_TIMEOUT=str(limit), JOB_STEPS="200")
    pids = job.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2 * limit)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert job.end(START_SECONDS).code == 0


def test_a_lost_connection_may_be_tried_again(start):
    ended = start("disconnect", "1").end(START_SECONDS)
    assert ended.code == os.EX_TEMPFAIL
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1")
