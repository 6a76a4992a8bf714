"""Whenever a job is killed, the checkpoint before or the new one is there and good."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 110.0

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.usefixtures("forking")
def test_a_job_lost_at_every_call_to_the_file_system_and_killed_at_any_moment(tmp_path):
    """In one process, which asserts what is there after each."""
    command = [sys.executable, "-m", "tests.checkpoint.crashes", str(tmp_path), "20"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    alone, two, times, torn = map(int, done.stdout.split())
    assert alone > 20
    assert two > 20
    assert times == 20
    assert torn > 0  # else no kill came while something was written
