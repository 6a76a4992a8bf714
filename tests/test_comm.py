"""The stacked communicator is multiplication by W; its counters are the formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import topologies
from gossip.comm.base import Traffic
from gossip.comm.base import messages as per_learner
from gossip.comm.by_identity import ByIdentity
from gossip.comm.product import product
from gossip.comm.stacked import Stacked
from gossip.comm.transports.blocks import Blocks
from tests.problems import complete, ring


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_the_product_is_the_same_for_every_density(rows, columns, density, seed):
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < density)
    x = torch.from_numpy(rng.standard_normal((columns, 5)))
    result = product(csr_array(dense))(x)
    torch.testing.assert_close(result, torch.from_numpy(dense) @ x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_product_keeps_the_dtype(dtype):
    x = torch.ones(6, 3, dtype=dtype)
    for w in (ring(6), complete(6)):
        assert product(w)(x).dtype == dtype


def test_plans_are_made_once_per_matrix_and_forgotten_in_the_end():
    made = []
    plans = ByIdentity(lambda w: made.append(w) or len(made), size=3)
    matrices = [ring(5) for _ in range(4)]
    assert [plans(w) for w in matrices[:3]] == [1, 2, 3]
    assert [plans(w) for w in matrices[:3]] == [1, 2, 3]
    assert plans(matrices[3]) == 4
    assert plans(matrices[0]) == 5  # the oldest had to go


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_mixing_multiplies_and_leaves_its_input_alone(n):
    x = torch.from_numpy(np.random.default_rng(n).standard_normal((n, 7)))
    kept = x.clone()
    mixed = Stacked(n).start_mix(x, ring(n))()
    expected = torch.from_numpy(ring(n).toarray()) @ x
    torch.testing.assert_close(mixed, expected, rtol=1e-12, atol=1e-13)
    assert torch.equal(x, kept)


def test_mixing_refuses_rows_that_do_not_lie_in_one_piece():
    with pytest.raises(AssertionError, match="contiguous"):
        Stacked(4).start_mix(torch.ones(7, 4).T, ring(4))


def test_the_mean_is_over_learners_or_over_the_one_row_that_stands_for_them():
    x = torch.arange(12.0).view(4, 3)
    assert torch.equal(Stacked(4).mean(x), x.mean(0))
    assert torch.equal(Stacked(4).mean(x[:1]), x[0])
    assert torch.equal(Stacked(4).gather(x), x)
    assert Stacked(4).share({"a": 1}) == [{"a": 1}]


@pytest.mark.parametrize(
    ("name", "n", "messages"),
    [("ring", 16, 2), ("complete", 16, 15), ("one-peer-exponential", 16, 1), ("ring", 1, 0)],
)
def test_a_mixing_step_sends_a_row_along_each_edge(name, n, messages):
    topology, traffic = topologies.build(name, n), Traffic()
    for t in range(4):
        traffic.count_mix(per_learner(topology.matrix(t)), row_bytes=400)
    assert traffic.messages_per_learner == 4 * messages
    assert traffic.bytes_sent_per_learner == 4 * messages * 400
    assert traffic.bytes_sent_per_learner == sum(
        topology.bytes_per_step(t, 400).mean() for t in range(4)
    )


@pytest.mark.parametrize("n", [1, 2, 16])
def test_an_average_is_counted_as_a_ring_all_reduce(n):
    traffic = Traffic()
    traffic.count_mean(n, row_bytes=400)
    assert traffic.bytes_sent_per_learner == pytest.approx(2 * (n - 1) / n * 400)


@pytest.mark.parametrize("wire", [torch.bfloat16, torch.float16])
def test_rows_are_rounded_for_others_alone(wire):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 40)))
    w = ring(6)
    travelled = x.to(wire).double()
    own = torch.from_numpy(w.diagonal()).unsqueeze(1)
    others = torch.from_numpy(w.toarray()) - torch.diag(own.squeeze())
    comm = Stacked(6, wire)
    mixed = comm.start_mix(x, w)()
    torch.testing.assert_close(mixed, own * x + others @ travelled, rtol=1e-12, atol=1e-13)
    assert not torch.equal(travelled, x)
    assert comm.traffic.bytes_sent_per_learner == 2 * 40 * wire.itemsize
    alone = csr_array(np.eye(6))
    assert torch.equal(comm.start_mix(x, alone)(), x)


class Recorded(Blocks):
    """Process 0 of two, in each of which there is the same; keeps what its messages arrive in."""

    backend = "recorded"

    def __init__(self):
        super().__init__(2, 0, 2)
        self.arrivals = []

    def share(self, value):
        return [value, value]

    def _staged(self, x):
        return x

    def _exchange(self, plan, rows, arrivals):
        self.arrivals.append(arrivals)
        return lambda: arrivals.copy_(rows)

    def _start_adding(self, total):
        return lambda: None


def test_rows_of_a_module_on_several_devices_arrive_where_they_are_mixed():
    comm, devices = Recorded(), ("cpu", "meta", "cpu")
    for device in devices:
        mixed = comm.start_mix(torch.ones(1, 7, device=device), complete(2))()
        assert mixed.device.type == device
    assert tuple(arrivals.device.type for arrivals in comm.arrivals) == devices
    assert comm.arrivals[0].data_ptr() == comm.arrivals[2].data_ptr()  # used again all the same
