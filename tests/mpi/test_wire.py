"""Rows that travel in fewer bits: the same result whoever hosts whom, and whichever way they go."""

import numpy as np
import pytest
import torch
from mpi4py import MPI
from scipy.sparse import csr_array

from gossip import Gossip
from gossip.algorithms import ALGORITHMS
from gossip.comm.compressing import compressing
from gossip.comm.stacked import Stacked
from gossip.comm.transports.mpi import Mpi
from gossip.compress import wire
from gossip.task import Gradients
from tests import problems
from tests.fits import PLAIN
from tests.problems import complete, ring

pytestmark = pytest.mark.mpi

D = 1000
PLACES = {"near": lambda rank: "here", "far": lambda rank: rank, "both": lambda rank: rank // 2}


@pytest.mark.parametrize("wire", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("local", [1, 3])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("graph", [ring, complete])
def test_results_do_not_depend_on_who_hosts_a_learner(wire, dtype, local, place, graph):
    rank, n = MPI.COMM_WORLD.rank, local * MPI.COMM_WORLD.size
    comm, stacked, w = Mpi(n, place=PLACES[place](rank), wire=wire), Stacked(n, wire), graph(n)
    x = torch.from_numpy(np.random.default_rng(5).standard_normal((n, D))).to(dtype)
    for _ in range(3):
        here = x[comm.hosted.start : comm.hosted.stop].clone()
        mixed = comm.start_mix(here, w)()
        x = stacked.start_mix(x, w)()
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}[dtype]
        expected = x[comm.hosted.start : comm.hosted.stop]
        torch.testing.assert_close(mixed, expected, rtol=tolerance, atol=tolerance)
        x = comm.gather(mixed)  # the next rounding is of the same bits
    assert comm.traffic.bytes_sent_per_learner == stacked.traffic.bytes_sent_per_learner


@pytest.mark.parametrize("spec", ["int8:64", "int4"])
@pytest.mark.parametrize("place", PLACES)
def test_payloads_do_not_depend_on_who_hosts_a_learner(spec, place):
    rank, n = MPI.COMM_WORLD.rank, 2 * MPI.COMM_WORLD.size
    comm = compressing(Mpi(n, place=PLACES[place](rank)), wire(spec))
    stacked, w = compressing(Stacked(n), wire(spec)), ring(n)
    x = torch.from_numpy(np.random.default_rng(5).standard_normal((n, D)))
    mixed = comm.start_mix(x[comm.hosted.start : comm.hosted.stop].clone(), w)()
    expected = stacked.start_mix(x, w)()[comm.hosted.start : comm.hosted.stop]
    torch.testing.assert_close(mixed, expected, rtol=1e-12, atol=1e-12)
    assert comm.traffic.bytes_sent_per_learner == stacked.traffic.bytes_sent_per_learner


def test_a_script_sends_its_weights_so():
    rank, n = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    own = torch.nn.Linear(300, 1, bias=False, dtype=torch.float64)
    model = Gossip(own, "complete", order="atc", wire="int8")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    x = own.weight.detach().clone().expand(n, -1).contiguous()
    g = torch.from_numpy(np.random.default_rng(7).standard_normal((n, 300)))
    comm = compressing(Stacked(n), wire("int8"))
    for _ in range(3):
        optimizer.zero_grad()
        (model(g[rank : rank + 1])).sum().backward()
        optimizer.step()
        x = comm.start_mix(x - g, complete(n))()
    torch.testing.assert_close(own.weight[0].detach(), x[rank], rtol=1e-12, atol=1e-12)
    assert model.traffic.bytes_sent_per_learner == comm.traffic.bytes_sent_per_learner


@pytest.mark.parametrize("name", ["noloco", "gasloc"])
def test_rounds_of_a_script_send_payloads(name):
    """As in the harness: the rows of all in one process, their messages packed."""
    rank, n = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    own = torch.nn.Linear(300, 1, bias=False, dtype=torch.float64)
    model = Gossip(own, "complete", algorithm=name, every=2, wire="int8")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    g = torch.from_numpy(np.random.default_rng(7).standard_normal((n, 300)))
    comm, w = compressing(Stacked(n), wire("int8")), complete(n)
    harness = ALGORITHMS[name](problems.optimizer(), PLAIN._replace(options={"every": "2"}))
    state = harness.init(own.weight[0].detach().clone(), n)
    for _ in range(6):
        optimizer.zero_grad()
        (model(g[rank : rank + 1])).sum().backward()
        optimizer.step()
        state, _ = harness.step(state, lambda _: Gradients(g, g.sum(1)), w, lambda *_: 1.0, comm)
    torch.testing.assert_close(own.weight[0].detach(), state.x[rank], rtol=1e-12, atol=1e-12)
    sent = comm.traffic.bytes_sent_per_learner
    assert model.traffic.bytes_sent_per_learner == pytest.approx(sent)
    # A learner alone sends nothing.
    assert 0 < sent < 3 * 2 * (n - 1) * 300 * 8 / 4 or sent == n - 1 == 0


def test_a_learner_alone_is_not_rounded():
    n = MPI.COMM_WORLD.size
    comm = Mpi(n, wire=torch.bfloat16)
    x = torch.randn(1, D, generator=torch.Generator().manual_seed(comm.process))
    assert torch.equal(comm.start_mix(x, csr_array(np.eye(n)))(), x)
