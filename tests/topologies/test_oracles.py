"""Closed forms and recorded numbers of the literature's topologies."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies
from topologies.fdla import subgradient
from topologies.spectrum import deviation_norm
from topologies.weights import WEIGHTS, best_constant, edge_arrays, metropolis_hastings


def certified(name, n, **options):
    return topologies.certificate(topologies.build(name, n, **options))


def gap(name, n, **options):
    return certified(name, n, **options).gap


@pytest.mark.parametrize("n", [4, 5, 8, 16, 32, 64, 128, 256, 512, 1024])
def test_a_ring_of_thirds_has_its_closed_form(n):
    expected = (1 + 2 * math.cos(2 * math.pi / n)) / 3
    c = certified("ring", n)
    assert c.abs_lambda2 == pytest.approx(expected, abs=1e-12)
    assert c.sigma2 == pytest.approx(expected, abs=1e-12)
    assert c.rho_dpsgd == pytest.approx(expected**2, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "recorded"),
    [(4, 0.3333333333), (5, 0.5393446629), (16, 0.9492530217), (1024, 0.9999874501884)],
)
def test_a_ring_of_thirds_has_the_recorded_rates(n, recorded):
    assert certified("ring", n).abs_lambda2 == pytest.approx(recorded, abs=1e-10)


@pytest.mark.parametrize(
    ("n", "recorded"),
    [(4, 1 / 3), (8, 0.7445208382), (16, 0.9266704715), (32, 0.9809681265), (64, 0.9951962923)],
)
def test_the_best_constant_ring_has_its_closed_form(n, recorded):
    c = math.cos(2 * math.pi / n)
    rate = certified("ring", n, weights="best-constant").abs_lambda2
    assert rate == pytest.approx((1 + c) / (3 - c), abs=1e-12)
    assert rate == pytest.approx(recorded, abs=1e-9)


TORUS = {3: 0.6, 4: 0.4, 5: 0.2763932, 6: 0.2, 8: 0.11715729, 16: 0.03044819}
GRID = {2: 0.66666667, 3: 0.23257654, 4: 0.13135938, 5: 0.08378706, 8: 0.03229536}


@pytest.mark.parametrize("side", TORUS)
def test_the_square_torus_has_its_closed_form(side):
    found = gap("torus", side * side)
    waves = np.cos(2 * np.pi * np.arange(side) / side)
    rates = np.abs(1 + 2 * waves[:, None] + 2 * waves) / 5
    assert found == pytest.approx(1 - np.sort(rates.ravel())[-2], abs=1e-12)
    assert found == pytest.approx(TORUS[side], abs=1e-7)


@pytest.mark.parametrize("side", GRID)
def test_the_open_grid_has_the_recorded_gap(side):
    assert gap("grid", side * side) == pytest.approx(GRID[side], abs=1e-8)


@pytest.mark.parametrize("d", range(1, 11))
def test_the_hypercube_has_its_closed_form(d):
    rate = max(abs(1 + d - 2 * k) for k in range(1, d + 1)) / (d + 1)
    assert gap("hypercube", 2**d) == pytest.approx(1 - rate, abs=1e-10)


EXPONENTIAL = {5: 0.75, 7: 0.64644661, 33: 0.39219996}


@pytest.mark.parametrize("n", [4, 6, 8, 12, 16, 20, 32, 64, 100, 128])
def test_the_exponential_graph_of_even_n_has_its_closed_form(n):
    c = certified("exponential", n)
    assert c.gap == pytest.approx(2 / (1 + math.ceil(math.log2(n))), abs=1e-12)
    assert c.sigma2 == pytest.approx(1 - c.gap, abs=1e-12)
    assert c.column_stochastic


@pytest.mark.parametrize("n", EXPONENTIAL)
def test_the_exponential_graph_of_odd_n_is_better_than_that(n):
    found = gap("exponential", n)
    assert found == pytest.approx(EXPONENTIAL[n], abs=1e-8)
    assert found >= 2 / (1 + math.ceil(math.log2(n)))


@pytest.mark.parametrize("n", [4, 8, 16, 32, 64])
def test_a_star_has_gap_1_over_n(n):
    assert gap("star", n) == pytest.approx(1 / n, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "recorded"), [(4, 0.19526215), (8, 0.05074698), (16, 0.01280981), (64, 0.00080303)]
)
def test_a_chain_is_a_ring_of_twice_as_many(n, recorded):
    assert gap("chain", n) == pytest.approx(gap("ring", 2 * n), abs=1e-12)
    assert gap("chain", n) == pytest.approx(recorded, abs=1e-8)


def test_the_social_graphs_have_the_recorded_gaps():
    assert gap("davis", 32) == pytest.approx(0.0820975, abs=1e-8)
    assert gap("karate", 34) == pytest.approx(0.03123642, abs=1e-8)


def test_the_complete_graph_averages_at_once():
    assert certified("complete", 9).sigma2 == 0


ONE_PEER = {
    4: 0, 8: 0, 16: 0, 32: 0, 64: 0,
    5: 0.2023, 6: 0.2165, 7: 0.125, 12: 0.2091, 20: 0.19, 24: 0.2073, 48: 0.2069,
}  # fmt: skip


@pytest.mark.parametrize("n", ONE_PEER)
def test_one_peer_rounds_average_exactly_only_for_powers_of_two(n):
    topology = topologies.build("one-peer-exponential", n)
    matrices = [topology.matrix(t).toarray() for t in range(topology.period)]
    product = np.linalg.multi_dot(matrices[::-1])
    error = np.linalg.norm(product - 1 / n, 2)
    assert error == pytest.approx(ONE_PEER[n], abs=1e-12 if ONE_PEER[n] == 0 else 1e-4)
    assert topologies.certificate(topology).rho_prod == pytest.approx(error, abs=1e-12)


def test_a_single_one_peer_step_contracts_almost_nothing():
    topology = topologies.build("one-peer-exponential", 16)
    norms = [deviation_norm([topology.matrix(t)]) for t in range(4)]
    assert norms == pytest.approx([0.9808, 1, 1, 1], abs=1e-4)


def test_one_peer_sends_forward():
    topology = topologies.build("one-peer-exponential", 8)
    assert topology.neighbours_out(3, 1).tolist() == [5]
    assert topology.neighbours_in(3, 1).tolist() == [1]


BASE_LENGTHS = {
    1: {2: 1, 3: 3, 4: 2, 5: 5, 6: 4, 7: 5, 8: 3, 9: 7, 10: 6, 12: 5, 15: 7, 16: 4, 20: 7, 24: 6,
        25: 9, 31: 9, 32: 5, 33: 11, 48: 7, 63: 11, 64: 6, 100: 11},
    2: {2: 1, 3: 1, 4: 2, 5: 3, 6: 2, 7: 4, 8: 3, 9: 2, 10: 4, 12: 3, 15: 4, 16: 4, 20: 5, 24: 4,
        25: 6, 31: 7, 32: 5, 33: 6, 48: 5, 63: 6, 64: 6, 100: 8},
    3: {2: 1, 3: 1, 4: 1, 5: 3, 6: 2, 7: 3, 8: 2, 9: 2, 10: 4, 12: 2, 15: 4, 16: 2, 20: 4, 24: 3,
        25: 5, 31: 5, 32: 3, 33: 5, 48: 3, 63: 5, 64: 3, 100: 6},
    4: {2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 7: 3, 8: 2, 9: 2, 10: 2, 12: 2, 15: 2, 16: 2, 20: 2, 24: 3,
        25: 2, 31: 5, 32: 3, 33: 5, 48: 3, 63: 5, 64: 3, 100: 3},
}  # fmt: skip


@pytest.mark.parametrize("k", BASE_LENGTHS)
def test_the_base_graph_averages_any_n_exactly_with_at_most_k_peers(k):
    for n in range(1, 101):
        topology = topologies.TOPOLOGIES["base"](n, k=k)
        product = np.eye(n)
        for t in range(topology.period):
            w = topology.matrix(t)
            product = w @ product
            assert abs(w - w.T).max() <= 1e-15
            assert topology.messages_per_step(t).max() <= k
            assert w.data.min() > 0
        np.testing.assert_allclose(product, 1 / n, atol=1e-14, err_msg=f"n={n}")
        assert topology.period <= 2 * math.log(n, k + 1) + 2
        assert topology.period == BASE_LENGTHS[k].get(n, topology.period)


GRID3 = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
FDLA_BEST_MH = {
    "path3": (nx.path_graph(3), 0.5, 0.5, 0.66667),
    "path4": (nx.path_graph(4), 0.70711, 0.70711, 0.80474),
    "star4leaves": (nx.star_graph(4), 0.66667, 0.66667, 0.8),
    "grid3x3": (GRID3, 0.69259, 0.71429, 0.76742),
    "barbell4": (nx.barbell_graph(4, 0), 0.86603, 0.88192, 0.92915),
}  # fmt: skip


@pytest.mark.parametrize("name", FDLA_BEST_MH)
def test_weight_rules_have_the_recorded_rates(name):
    graph, fdla, best, mh = FDLA_BEST_MH[name]
    assert deviation_norm([WEIGHTS["fdla"](graph)]) == pytest.approx(fdla, abs=1e-3)
    assert deviation_norm([best_constant(graph)]) == pytest.approx(best, abs=1e-5)
    assert deviation_norm([metropolis_hastings(graph)]) == pytest.approx(mh, abs=1e-5)


@pytest.mark.parametrize("name", FDLA_BEST_MH)
def test_the_subgradient_without_a_solver_comes_as_near(name):
    graph, fdla, _, _ = FDLA_BEST_MH[name]
    i, j = edge_arrays(graph)
    laplacian = nx.laplacian_matrix(graph, weight=None).toarray()
    eigenvalues = np.linalg.eigvalsh(laplacian)
    start = np.full(len(i), 2 / (eigenvalues[1] + eigenvalues[-1]))
    c = subgradient(len(graph), i, j, start)
    edge_vectors = np.zeros((len(i), len(graph)))
    edge_vectors[np.arange(len(i)), i], edge_vectors[np.arange(len(i)), j] = 1, -1
    w = np.eye(len(graph)) - edge_vectors.T @ np.diag(c) @ edge_vectors
    assert np.linalg.norm(w - 1 / len(graph), 2) == pytest.approx(fdla, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 30), (0.7, 50)])
def test_equi_static_keeps_its_promise(epsilon, n):
    for name in ("equi-static", "equi-static-directed"):
        norms = [certified(name, n, epsilon=epsilon, seed=s).sigma2 for s in range(20)]
        assert np.mean(np.array(norms) < epsilon) >= 0.9


def test_periodic_averaging_without_a_base_is_local_sgd():
    topology = topologies.build("periodic", 6, every=3)
    assert [topology.matrix(t).nnz for t in range(6)] == [6, 6, 36, 6, 6, 36]
    assert topologies.certificate(topology).rho_prod <= 1e-15


def test_periodic_averaging_over_a_base_mixes_between():
    topology = topologies.build("periodic", 6, every="2", base="base", k="2")
    base = topologies.build("base", 6, k=2)
    assert topology.period == math.lcm(2, base.period)
    assert (topology.matrix(0) != base.matrix(0)).nnz == 0
    assert topology.matrix(1).nnz == 36
