"""A process in a framework's loop raises: the job ends with one report, and its record is readable.

By Lightning, Hugging Face's Trainer and accelerate, with two processes each.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from gossip import trace
from gossip.report import load_runs
from tests import nursery
from tests.faults.jobs import NEED_MPI, ROOT
from tests.machine import patience
from tests.start import CHECKOUT
from tests.wrapper.adapters import NEEDS

pytestmark = [
    NEED_MPI[1],
    pytest.mark.slow,  # importing the frameworks takes most of it
    pytest.mark.timeout(300),
]
INSTALLED = [adapter for adapter, library in NEEDS.items() if find_spec(library)]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The folder, and how the job of each adapter has ended."""
    folder = tmp_path_factory.mktemp("frameworks")
    with nursery.forking():
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    clean |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": CHECKOUT}
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.frameworks", str(folder), *INSTALLED, "leave"],
        env=clean,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(200),
    )
    assert done.returncode == 0, done.stderr
    ended = map(json.loads, done.stdout.splitlines())
    return folder, {each["adapter"]: each for each in ended}


@pytest.mark.parametrize("adapter", NEEDS)
def test_an_exception_on_one_process_ends_the_job_with_one_report(jobs, adapter):
    if adapter not in INSTALLED:
        pytest.skip(f"{NEEDS[adapter]} is not installed")
    folder, ended = jobs[0], jobs[1][adapter]
    text = ended["text"]
    assert not ended["hung"], text
    assert ended["codes"][1] == 1, text
    assert ended["codes"][0] != 0, text
    assert text.count("Traceback") == 1, text
    [line] = [line for line in text.splitlines() if line.startswith("learner")]
    assert line.startswith("learner 1 (process 1 on host ")
    assert line.endswith("at step 2 in training: ArithmeticError: that gradient is no good")
    if adapter == "trainer":  # its module is not wrapped, so it cannot be recorded
        return
    # Step 1 is measured when both begin step 2, which Lightning does before it asks for the loss.
    rows = trace.column(trace.load(folder / adapter), "step").tolist()
    assert rows in ([[0], [0, 1]] if adapter == "lightning" else [[0]])
    (run,) = load_runs([folder / adapter])
    assert run.column("sigma_w2")[0] == 0


def test_processes_that_have_left_may_be_killed(jobs):
    """As Ray does with its workers; without `gossip.leave()` they would be told to have died."""
    ended = jobs[1]["leave"]
    assert (ended["codes"], ended["hung"]) == ([-9, -9], False)
    assert "died at step" not in ended["text"]
