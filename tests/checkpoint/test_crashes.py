"""Whenever a job is killed, the checkpoint before or the new one is there and good."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 110.0

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def crashes(*arguments):
    """The numbers it prints, once all that it asserts holds."""
    command = [sys.executable, "-m", "tests.checkpoint.crashes", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_job_lost_at_every_call_to_the_file_system(processes, tmp_path):
    (calls,) = crashes("at-every-call", tmp_path, processes)
    assert calls > 20


def test_a_job_killed_at_any_moment(tmp_path):
    times, torn = crashes("at-any-moment", tmp_path / "checkpoint", 20)
    assert times == 20
    assert torn > 0  # else no kill came while something was written
