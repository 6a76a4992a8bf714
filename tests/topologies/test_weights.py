"""Weight rules on random connected graphs."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies import TopologyError
from topologies.spectrum import abs_lambda2, deviation_norm
from topologies.weights import WEIGHTS, mixing_matrix


@st.composite
def connected_graphs(draw):
    """A random spanning tree and random extra edges."""
    n = draw(st.integers(2, 12))
    graph = nx.empty_graph(n)
    graph.add_edges_from((draw(st.integers(0, i - 1)), i) for i in range(1, n))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    graph.add_edges_from((i, j) for i, j in draw(st.lists(pairs, max_size=12)) if i != j)
    return graph


@pytest.mark.parametrize("rule", [rule for rule in WEIGHTS if rule not in ("uniform", "fdla")])
@given(graph=connected_graphs(), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_rule_averages_on_every_connected_graph(rule, graph, seed):
    w = mixing_matrix(graph, rule)
    n = len(graph)
    assert (w != w.T).nnz == 0
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-13)
    adjacency = nx.to_numpy_array(graph, nodelist=range(n), weight=None)
    off = ~np.eye(n, dtype=bool)
    np.testing.assert_array_equal((w.toarray() != 0)[off], (adjacency != 0)[off])
    assert abs_lambda2(w) < 1
    x = np.random.default_rng(seed).standard_normal((n, 3))
    shrunk = np.linalg.norm(w @ x - x.mean(axis=0))
    assert shrunk <= deviation_norm([w]) * np.linalg.norm(x - x.mean(axis=0)) + 1e-12
    if rule == "lazy":
        assert np.linalg.eigvalsh(w.toarray())[0] >= -1e-13
    if rule == "metropolis-hastings":
        assert w.diagonal().min() > 0


@given(graph=connected_graphs())
@settings(max_examples=6, deadline=None)
def test_fdla_is_at_least_as_good_as_any_other_rule(graph):
    fastest = deviation_norm([mixing_matrix(graph, "fdla")])
    for rule in ("metropolis-hastings", "max-degree", "best-constant", "lazy"):
        assert fastest <= deviation_norm([mixing_matrix(graph, rule)]) + 2e-3


def test_the_best_constant_is_the_best_of_all_constants():
    graph = nx.karate_club_graph()
    laplacian = nx.laplacian_matrix(graph, weight=None).toarray()
    best = deviation_norm([mixing_matrix(graph, "best-constant")])
    for a in np.linspace(0.001, 0.2, 300):
        assert best <= np.linalg.norm(np.eye(34) - a * laplacian - 1 / 34, 2) + 1e-12


def test_uniform_weights_are_one_over_degree_plus_one():
    w = mixing_matrix(nx.cycle_graph(6), "uniform").toarray()
    np.testing.assert_allclose(w[0], [1 / 3, 1 / 3, 0, 0, 0, 1 / 3], atol=1e-15)


def test_uniform_weights_refuse_an_irregular_graph():
    with pytest.raises(TopologyError, match=r"'uniform' need .* from 1 to 2: use 'metropolis"):
        topologies.build("chain", 5, weights="uniform")


def test_an_unknown_rule_is_refused_with_the_list():
    with pytest.raises(
        TopologyError, match=r"unknown weights 'mh': use one of metropolis-hastings"
    ):
        topologies.build("ring", 5, weights="mh")


def test_negative_weights_are_allowed_with_a_warning():
    with pytest.warns(topologies.TopologyWarning) as caught:
        topology = topologies.build("star", 6, weights="best-constant")
    sentence = "star: some weights are negative, so mixed values may overshoot"
    assert [str(w.message) for w in caught] == [sentence]
    assert issubclass(topologies.TopologyWarning, UserWarning)
    assert topology.matrix(0).diagonal().min() < 0


def test_fdla_refuses_what_it_cannot_compute():
    with pytest.raises(TopologyError, match=r"at most 256 learners, got 300: use 'best-constant'"):
        topologies.build("ring", 300, weights="fdla")
