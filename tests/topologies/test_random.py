"""Random topologies: their contraction in expectation, in closed form and sampled."""

import numpy as np
import pytest

import topologies
from topologies.equi import greedy_pairs
from topologies.expectation import sampled_lambda2

RECORDED = {
    "matching": {4: 1 / 3, 8: 3 / 7, 16: 7 / 15, 64: 0.49206349206349204, 5: 0.5, 9: 0.5},
    "cycle": {4: 1 / 3, 5: 0.375, 8: 3 / 7, 16: 7 / 15, 64: 0.49206349206349204},
    "ring-shuffle": {5: 1 / 6, 8: 0.2380952380952381, 16: 0.2888888888888889, 64: 0.3227513227513},
    "pull": {4: 0.2777777777777778, 8: 0.39795918367346944, 16: 0.45111111111111113,
             64: 0.4881582262534644},
}  # fmt: skip


@pytest.mark.parametrize(("name", "n"), [(k, n) for k, values in RECORDED.items() for n in values])
def test_the_closed_form_is_the_recorded_one(name, n):
    c = topologies.certificate(topologies.build(name, n))
    assert c.expected_lambda2 == pytest.approx(RECORDED[name][n], abs=1e-12)
    assert c.p_random == pytest.approx(1 - RECORDED[name][n], abs=1e-12)
    assert c.contraction_method == "closed form"


@pytest.mark.parametrize("n", [5, 8])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("matching", {}),
        ("cycle", {}),
        ("ring-shuffle", {}),
        ("pull", {}),
        ("matcha", {}),
        ("matcha", {"base": "star", "budget": 0.3, "seed": 2}),
        ("equi-dynamic", {}),
        ("equi-dynamic", {"eta": 1.0}),
        ("equi-dynamic", {"num_offsets": 3, "seed": 4}),
        ("equi-dynamic-directed", {}),
        ("equi-dynamic-directed", {"eta": 0.9}),
        ("equi-dynamic-directed", {"num_offsets": 3, "seed": 4}),
    ],
)
def test_the_closed_form_is_what_sampling_finds(name, options, n):
    topology = topologies.TOPOLOGIES[name](n, **options)
    # The mean of 500 matrices with entries below 1/2 or so is noisy by less than 1 / sqrt(500).
    found = sampled_lambda2(topology, 500)
    assert found == pytest.approx(topology.expected_contraction(), abs=0.045)


def test_a_large_sample_is_reduced_as_a_small_one():
    few = topologies.TOPOLOGIES["ring-shuffle"](600)
    mean = sum((m := few.matrix(t)).T @ m for t in range(20)).toarray() / 20 - 1 / 600
    assert sampled_lambda2(few, 20) == pytest.approx(np.linalg.eigvalsh(mean)[-1], rel=1e-6)


def test_a_random_base_under_periodic_averaging_is_sampled():
    c = topologies.certificate(topologies.build("periodic", 8, every=2, base="matching"))
    assert c.contraction_method == "Monte Carlo, 2000 samples"
    assert c.expected_lambda2 == pytest.approx(3 / 14, abs=0.02)  # J half of the time


@pytest.mark.parametrize("n", [2, 3, 7, 12, 30])
def test_greedy_pairs_are_those_of_a_scan(n):
    for p in range(1, n):
        free, expected = [True] * n, []
        for i in range(n):
            if free[i] and free[(i + p) % n]:
                free[i] = free[(i + p) % n] = False
                expected.append(i)
        assert greedy_pairs(n, p).tolist() == expected


@pytest.mark.parametrize("n", [4, 7])
def test_every_learner_idles_or_is_matched_with_everyone(n):
    topology = topologies.build("matching", n)
    total = sum(topology.matrix(t).toarray() != 0 for t in range(600)) / 600
    off = ~np.eye(n, dtype=bool)
    expected = 1 / (n - 1) if n % 2 == 0 else 1 / n
    np.testing.assert_allclose(total[off], expected, atol=0.08)
    assert {int(topology.messages_per_step(t).sum()) for t in range(20)} == {n - n % 2}


def test_different_seeds_draw_different_matchings():
    draws = [topologies.build("matching", 16, seed=s).matrix(0).indices.tolist() for s in (0, 1)]
    assert draws[0] != draws[1]


def test_periodic_averaging_passes_its_seed_to_a_base_that_draws():
    def drawn(seed):
        topology = topologies.build("periodic", 16, every=3, base="matching", seed=seed)
        return topology.matrix(0).indices.tolist()

    base = topologies.build("matching", 16, seed=7).matrix(0).indices.tolist()
    assert drawn("7") == drawn(7) == base != drawn(0)


@pytest.mark.parametrize("base", ["none", "ring", "base", "periodic"])
def test_periodic_averaging_takes_a_seed_though_its_base_draws_nothing(base):
    one, other = (topologies.build("periodic", 6, base=base, seed=s) for s in (0, 5))
    assert (one.matrix(0) != other.matrix(0)).nnz == 0


def test_pull_preserves_the_mean_only_in_expectation():
    topology = topologies.build("pull", 8)
    c = topologies.certificate(topology)
    assert topology.preserves_mean == "expectation"
    assert c.row_stochastic
    assert not c.column_stochastic
    mean = sum(topology.matrix(t).sum(axis=0) for t in range(500)) / 500
    np.testing.assert_allclose(mean, 1, atol=0.12)
