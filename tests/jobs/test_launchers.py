"""The one function that reads the environment of a job, on what each launcher puts there."""

import os
import sys

import pytest

from gossip.comm.startup import launchers, rendezvous
from tests.jobs.recorded import RECORDED, Recorded


@pytest.fixture(params=RECORDED.values(), ids=RECORDED)
def begun(request, monkeypatch) -> Recorded:
    """A process with nothing but what its launcher has told it."""
    monkeypatch.setattr(os, "environ", dict(request.param.variables))
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)  # a fact of the tests' own job
    return request.param


def test_the_place_in_a_job_is_read_from_what_its_launcher_says(begun):
    assert launchers.launched() == begun.means
    assert launchers.contradiction() is None


def test_who_finds_the_others_by_mpi(begun):
    assert rendezvous.meets_by_mpi() is begun.by_mpi


def test_the_processes_of_a_step_on_two_nodes_meet_on_the_first(monkeypatch):
    step = RECORDED["srun on two nodes"].variables
    monkeypatch.setattr(os, "environ", step)
    host, port = rendezvous.slurm_address()
    assert host == "node07"
    other = {**step, "SLURM_STEP_ID": "1"}
    monkeypatch.setattr(os, "environ", other)
    assert rendezvous.slurm_address() == (host, port + 1)
