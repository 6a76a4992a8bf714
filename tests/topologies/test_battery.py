"""What must hold for every topology of the table: averaging, contraction, purity, identity."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

import topologies
from tests.topologies.fixed import FIXED
from topologies import TOPOLOGIES, TopologyError
from topologies.spectrum import deviation_norm

MOVING = (
    "exponential",
    "one-peer-exponential",
    "matching",
    "cycle",
    "ring-shuffle",
    "pull",
    "base",
    "equi-static-directed",
    "equi-dynamic",
    "equi-dynamic-directed",
    "random-directed",
    "matcha",
    "periodic",
)
"""Topologies that are not one symmetric W."""
SIZES = (1, 2, 3, 4, 5, 8, 16)


def fits(name, n):
    return name != "hypercube" or n & (n - 1) == 0


CASES = [
    *((name, n) for name in TOPOLOGIES if name not in FIXED for n in SIZES if fits(name, n)),
    *FIXED.items(),
]
cases = pytest.mark.parametrize(("name", "n"), CASES)


@cache
def built(name, n):
    """For laws that are looked at and change nothing: a build may take a quarter of a second."""
    return topologies.build(name, n)


def some_steps(topology):
    return range(topology.period or 6)


def deviation(x):
    return x - x.mean(axis=0)


@cases
def test_rows_and_columns_sum_to_one(name, n):
    topology = built(name, n)
    for t in some_steps(topology):
        w = topology.matrix(t)
        assert w.shape == (n, n)
        assert w.dtype == np.float64
        assert w.has_canonical_format
        assert w.data.all()
        np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
        if topology.preserves_mean == "always":
            np.testing.assert_allclose(w.sum(axis=0), 1, atol=1e-12)
    assert (topology.preserves_mean == "expectation") == (name == "pull" and n > 1)


@cases
def test_the_mean_stays(name, n):
    topology = built(name, n)
    x = np.random.default_rng(1).standard_normal((n, 7)) + 3
    for t in some_steps(topology):
        if topology.preserves_mean == "always":
            mixed = topology.matrix(t) @ x
            np.testing.assert_allclose(mixed.mean(axis=0), x.mean(axis=0), rtol=1e-12)


@cases
def test_the_deviation_shrinks_by_sigma2_and_no_less_in_the_worst_case(name, n):
    topology = built(name, n)
    x = np.random.default_rng(2).standard_normal((n, 7))
    for t in some_steps(topology):
        w = topology.matrix(t)
        sigma2 = deviation_norm([w])
        shrunk = np.linalg.norm(deviation(w @ x))
        assert shrunk <= sigma2 * np.linalg.norm(deviation(x)) + 1e-12
        worst = np.linalg.svd(deviation(w.toarray()))[2][0]
        assert np.linalg.norm(deviation(w @ worst)) == pytest.approx(sigma2, abs=1e-12)


@pytest.mark.parametrize(("name", "n"), [c for c in CASES if c[0] not in MOVING and c[1] > 1])
def test_an_eigenvector_decays_as_its_eigenvalue(name, n):
    topology = built(name, n)
    w = topology.matrix(0)
    # Less 2 J, the all-ones vector has the eigenvalue -1 and comes first, alone.
    values, vectors = np.linalg.eigh(w.toarray() - 2 / n)
    k = 1 + np.argmax(np.abs(values[1:]))
    x = vectors[:, k]
    for t in range(1, 6):
        x = w @ x
        np.testing.assert_allclose(x, values[k] ** t * vectors[:, k], atol=1e-13)
    assert abs(values[k]) == pytest.approx(topologies.certificate(topology).abs_lambda2, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if name not in FIXED])
def test_one_learner_talks_to_nobody(name):
    topology = topologies.build(name, 1)
    assert topology.period is not None
    for t in range(3):
        assert topology.matrix(t).toarray().tolist() == [[1.0]]
        assert topology.bytes_per_step(t, 8).tolist() == [0]
    assert topologies.certificate(topology, 8).bytes_per_step == 0


@pytest.mark.parametrize("name", [n for n in TOPOLOGIES if n not in (*FIXED, "periodic")])
def test_two_learners_average(name):
    topology = topologies.build(name, 2)
    w = topology.matrix(0).toarray()
    expected = [[0.75, 0.25]] if name.startswith("equi-dynamic") else [[0.5, 0.5]]
    np.testing.assert_allclose(w, [*expected, expected[0][::-1]], atol=1e-15)


@cases
def test_two_builds_agree_whatever_was_asked_before(name, n):
    one, other = topologies.build(name, n), topologies.build(name, n)
    steps = [0, 5, 3, 11, 3, 0, 7]
    forward = {t: one.matrix(t) for t in steps}
    for t in reversed(steps):
        a, b = forward[t], other.matrix(t)
        np.testing.assert_array_equal(a.toarray(), b.toarray())
        np.testing.assert_array_equal(a.toarray(), one.matrix(t).toarray())


@cases
def test_a_periodic_topology_repeats_the_same_objects(name, n):
    topology = built(name, n)
    if topology.period is None:
        assert topology.is_random
        drawn = [topology.matrix(t).toarray() for t in range(8)]
        varied = any((a != b).any() for a, b in itertools.pairwise(drawn))
        assert varied or n <= 3
        return
    assert not topology.is_random
    for t in range(topology.period):
        assert topology.matrix(t) is topology.matrix(t + 3 * topology.period)


@cases
def test_neighbours_and_messages_count_the_entries(name, n):
    topology = built(name, n)
    for t in some_steps(topology):
        w = topology.matrix(t).toarray()
        np.fill_diagonal(w, 0)
        for j in range(n):
            assert topology.neighbours_in(j, t).tolist() == np.flatnonzero(w[j]).tolist()
            assert topology.neighbours_out(j, t).tolist() == np.flatnonzero(w[:, j]).tolist()
        assert topology.messages_per_step(t).tolist() == (w != 0).sum(axis=0).tolist()
        assert topology.bytes_per_step(t, 4.0).sum() == 4 * np.count_nonzero(w)


@cases
def test_the_certificate_says_what_was_built(name, n):
    topology = built(name, n)
    c = topologies.certificate(topology, message_bytes=8)
    assert (c.name, c.n, c.period) == (topology.name, n, topology.period)
    assert c.row_stochastic
    assert c.connected
    assert c.column_stochastic or topology.preserves_mean != "always"
    assert c.degree_min <= c.degree_mean <= c.degree_max
    assert c.bytes_per_step == 8 * c.messages_per_step
    assert (c.gap is None) == (topology.period != 1)
    assert 0 <= c.contraction < 1
    assert c.as_dict()["contraction"] == c.contraction
    if topology.graph is not None and name != "periodic":
        assert c.messages_per_step * n == pytest.approx(2 * topology.graph.number_of_edges())


@cases
def test_repeated_mixing_reaches_the_mean(name, n):
    topology = built(name, n)
    c = topologies.certificate(topology)
    x = deviation(np.random.default_rng(3).standard_normal((n, 3)))
    rate = c.contraction ** (0.5 if c.period is None else 1 / c.period)
    num_steps = 2 * (c.period or 8) if rate < 1e-3 else math.ceil(math.log(1e-3) / math.log(rate))
    start = np.linalg.norm(x)
    for t in range(num_steps + 2 * (c.period or 8)):
        x = topology.matrix(t) @ x
    assert np.linalg.norm(deviation(x)) <= 2e-3 * start + 1e-12


def test_unfit_sizes_are_refused_with_the_right_one():
    for name, right in FIXED.items():
        with pytest.raises(TopologyError, match=f"{name}: this graph has {right} learners"):
            topologies.build(name, right + 1)
    with pytest.raises(TopologyError, match=r"power of two, got n=12: use 8 or 16"):
        topologies.build("hypercube", 12)
