"""Starts jobs, kills what a failing test leaves, and removes what a killed MPI leaves."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import nursery
from tests.faults import jobs

JOB = Path(__file__).with_name("job.py")
LAUNCH = [sys.executable, "-m", "gossip.launch", "-n"]


@pytest.fixture(autouse=True)
def _clean_shared_memory():
    """Removes what MPI leaves there, also where Open MPI runs without mpirun."""
    before = jobs.shared_memory()
    yield
    jobs.remove_unused(jobs.shared_memory() - before)


@pytest.fixture
def start_command(tmp_path):
    """Starts any command as a job."""
    yield lambda command, **environment: jobs.Job(tmp_path, command, **environment)
    for pid in jobs.left_behind(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(start_command):
    """Starts job.py under mpirun; forked, where it has torch."""

    def begun(*arguments, **environment):
        is_light = environment.get("JOB_BACKEND", "light") == "light"
        command = [jobs.MPIRUN, "-n", str(jobs.NUM_PROCESSES), sys.executable, str(JOB)]
        with nullcontext() if is_light else nursery.forking():
            return start_command([*command, *arguments], **environment)

    return begun


@pytest.fixture
def start_launcher(start_command):
    """Starts job.py under gossip.launch."""
    command = [*LAUNCH, str(jobs.NUM_PROCESSES), "--module", "tests.faults.job"]
    return lambda *arguments: start_command([*command, *arguments])
