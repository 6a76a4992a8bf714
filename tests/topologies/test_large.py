"""Thousands of learners: built and measured by sparse means, equal to the closed forms."""

import math

import numpy as np
import pytest

import topologies
from topologies.spectrum import abs_lambda2, deviation_norm, laplacian_extremes
from topologies.topology import Topology

N = 4096


def certified(name, n=N, **options):
    return topologies.certificate(topologies.build(name, n, **options))


def ring_gap(n):
    return 1 - (1 + 2 * math.cos(2 * math.pi / n)) / 3


GAPS = {
    "ring": ring_gap(N),
    "chain": ring_gap(2 * N),
    "star": 1 / N,
    "torus": (2 - 2 * math.cos(2 * math.pi / 64)) / 5,
    "hypercube": 2 / 13,
    "exponential": 2 / 13,
    "complete": 1.0,
}


@pytest.mark.parametrize("name", GAPS)
def test_the_gap_of_a_static_topology_is_its_closed_form(name):
    c = certified(name)
    # Absolute errors near machine precision: the chain's gap is 2e-7.
    assert c.gap == pytest.approx(GAPS[name], abs=1e-12)
    assert c.connected
    assert c.row_stochastic
    assert c.column_stochastic


@pytest.mark.parametrize("name", ["one-peer-exponential", "base"])
def test_twelve_steps_of_one_message_average_4096_learners(name):
    c = certified(name)
    assert (c.period, c.degree_max) == (12, 1)
    assert c.rho_prod <= 1e-12


def test_an_awkward_number_of_learners_is_averaged_too():
    c = certified("base", 4095, k=2)
    assert c.degree_max <= 2
    assert c.rho_prod <= 1e-12


@pytest.mark.parametrize(
    ("name", "contraction"),
    [("matching", (N - 2) / (2 * (N - 1))), ("ring-shuffle", (1 - 2 / (N - 1)) / 3)],
)
def test_random_topologies_have_their_closed_form(name, contraction):
    c = certified(name)
    assert c.expected_lambda2 == pytest.approx(contraction, abs=1e-12)
    assert c.sigma2 == pytest.approx(1.0, abs=1e-6)


@pytest.mark.filterwarnings("ignore:chain. some weights are negative")
def test_best_constant_weights_of_thin_graphs_are_found():
    chain, ring = (certified(name, weights="best-constant") for name in ("chain", "ring"))
    c = math.cos(2 * math.pi / N)
    assert ring.gap == pytest.approx(1 - (1 + c) / (3 - c), rel=1e-6)
    assert chain.gap == pytest.approx(1 - math.cos(math.pi / N), rel=1e-6)


def test_laplacian_eigenvalues_agree_with_dense_ones():
    graph = topologies.build("small-world", 700, seed=3).graph
    adjacency = topologies.build("small-world", 700, seed=3).matrix(0).toarray() != 0
    np.fill_diagonal(adjacency, val=False)
    values = np.linalg.eigvalsh(np.diag(adjacency.sum(axis=0)) - adjacency)
    assert laplacian_extremes(graph) == pytest.approx((values[1], values[-1]), abs=1e-9)


@pytest.mark.parametrize("name", ["erdos-renyi", "binary-tree", "cycle", "pull"])
def test_sparse_sigma2_agrees_with_dense(name):
    w = topologies.build(name, 600).matrix(1)
    deviation = w.toarray() - w.toarray().mean(axis=0)
    assert deviation_norm([w]) == pytest.approx(np.linalg.norm(deviation, 2), abs=1e-9)


def test_sparse_products_agree_with_dense():
    topology = topologies.build("matching", 600)
    matrices = [topology.matrix(t) for t in range(12)]
    product = np.linalg.multi_dot([w.toarray() for w in reversed(matrices)])
    assert deviation_norm(matrices) == pytest.approx(np.linalg.norm(product - 1 / 600, 2), rel=1e-4)


def test_eigenvalues_of_a_large_directed_matrix_agree_with_dense():
    order = np.random.default_rng(0).permutation(600)
    exponential = topologies.build("exponential", 600).matrix(0).toarray()
    shuffled = topologies.from_matrices("shuffled", [exponential[order][:, order]]).matrix(0)
    assert abs_lambda2(shuffled) == pytest.approx(1 - 2 / 11, abs=1e-9)


def test_a_random_topology_keeps_only_a_few_matrices():
    topology = topologies.build("matching", 64)
    assert isinstance(topology, Topology)
    for t in range(50):
        topology.matrix(t)
    assert len(topology._matrices) <= 4
