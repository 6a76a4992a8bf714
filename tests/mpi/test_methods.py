"""Methods in users' scripts on several processes: what the harness walks, stacked."""

import pytest
import torch
from mpi4py import MPI

from tests.wrapper.replays import NAMES, harness, scripted

pytestmark = pytest.mark.mpi

N, RANK = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank


@pytest.mark.parametrize("name", NAMES)
def test_a_script_walks_the_stacked_trajectory(name):
    expected = harness(name, N)[RANK]
    torch.testing.assert_close(scripted(name, RANK), expected, rtol=1e-12, atol=1e-12)
