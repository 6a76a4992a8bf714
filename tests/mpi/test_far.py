"""Rows so large that they travel in pieces, between processes that share no memory."""

import pytest
import torch
from mpi4py import MPI

from gossip.comm.stacked import Stacked
from gossip.comm.transports.mpi import PROGRESS_BYTES, Mpi
from tests.problems import ring

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("apart", [1, 2])
def test_large_rows_arrive_while_something_is_computed(apart):
    n, d = MPI.COMM_WORLD.size, PROGRESS_BYTES // 8 + 1
    comm, w = Mpi(n, place=MPI.COMM_WORLD.rank // apart), ring(n)
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mine = x[comm.process : comm.process + 1]
    for _ in range(3):
        pending = comm.start_mix(mine, w)
        square = torch.ones(200, 200) @ torch.ones(200, 200)
        mine, x = pending(), Stacked(n).start_mix(x, w)()
        assert square[0, 0] == 200
        torch.testing.assert_close(mine, x[comm.process :][:1], rtol=1e-12, atol=1e-12)
