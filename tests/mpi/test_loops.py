"""What users' loops do in a step, on several processes: the formula, simulated in each of them."""

import pytest
import torch
from mpi4py import MPI

import topologies
from gossip import Gossip
from tests.wrapper.loops import LOOPS, batch_of, flat, walked

pytestmark = pytest.mark.mpi

N, RANK = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank


@pytest.mark.parametrize("order", ["awc", "atc"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_users_loop_is_the_formula(name, order):
    loop, topology = LOOPS[name], topologies.build("one-peer-exponential", N)
    module = loop.build()
    start = flat(module)
    model = Gossip(module, topology, order=order)
    optimizer = loop.optimizer(p for p in model.parameters() if p.requires_grad)
    for t in range(loop.steps):
        loop.body(model, optimizer, batch_of(t, RANK), RANK)
    matrices = [torch.from_numpy(topology.matrix(t).toarray()) for t in range(loop.steps)]
    expected = walked(loop, start, matrices, order)
    torch.testing.assert_close(flat(module), expected[RANK], rtol=1e-12, atol=1e-12)
