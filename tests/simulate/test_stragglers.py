"""Learners that are slow now and then, or for good: whom they slow."""

import numpy as np
import pytest

import topologies
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from tests.simulate.settings import EXPONENTIAL, Given, setting

PUBLISHED = {
    (16, "ssgd", "ring"): 2.68,
    (16, "awc", "ring"): 1.67,
    (16, "atc", "ring"): 2.13,
    (16, "awc", "matching"): 1.68,
    (16, "awc", "one-peer-exponential"): 1.68,
    (64, "ssgd", "ring"): 3.36,
    (64, "awc", "ring"): 1.68,
    (64, "atc", "ring"): 2.18,
    (64, "awc", "matching"): 1.74,
    (64, "awc", "one-peer-exponential"): 1.73,
    (256, "ssgd", "ring"): 4.07,
    (256, "awc", "ring"): 1.69,
    (256, "atc", "ring"): 2.19,
    (256, "awc", "matching"): 1.77,
    (256, "awc", "one-peer-exponential"): 1.77,
}
"""Seconds a step of C = 1 + Exp(mean 0.5), without a network, computed elsewhere."""
STEPS = {16: 3000, 64: 1500, 256: 2000}
"""Number of learners -> steps that give the mean to within 1 %."""
SLOW = ("constant", "s=3", "learners=4")


@pytest.mark.parametrize(("n", "algorithm", "topology"), PUBLISHED)
def test_seconds_a_step_of_exponential_stragglers(n, algorithm, topology):
    steps = STEPS[n] // (2 if topology == "matching" else 1)
    seconds = simulate(setting(algorithm, n, topology, EXPONENTIAL), steps).seconds_per_step
    assert seconds == pytest.approx(PUBLISHED[n, algorithm, topology], rel=0.01)
    if algorithm == "ssgd":  # the largest of n exponentials is H_n of them
        assert seconds == pytest.approx(1 + 0.5 * (1 / np.arange(1, n + 1)).sum(), rel=0.01)


@pytest.mark.parametrize("n", STEPS)
def test_learners_without_partners_take_what_a_gradient_takes(n):
    alone = topologies.build("periodic", n, every=10**6).matrix
    made = setting("ad-psgd", n, straggler=EXPONENTIAL, mixing=alone)
    seconds = simulate(made, 25_600 // n).seconds_per_step
    assert seconds == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize(
    ("algorithm", "topology"),
    [("ssgd", "ring"), ("awc", "ring"), ("atc", "ring"), ("awc", "one-peer-exponential")],
)
def test_of_one_learner_that_is_always_slow_all_learn_in_the_end(algorithm, topology):
    timeline = simulate(setting(algorithm, 16, topology, SLOW), 400)
    assert np.diff(timeline.mean)[-100:] == pytest.approx(3.0)


def test_random_pairs_learn_of_one_that_is_always_slow_too():
    """When each of them does is drawn, so that single steps may be shorter or longer."""
    ends = simulate(setting("awc", 16, "matching", SLOW), 400).mean
    assert (ends[-1] - ends[199]) / 200 == pytest.approx(3.0, rel=0.01)


def test_learners_that_wait_for_nobody_keep_their_own_pace():
    n, steps = 16, 100
    timeline = simulate(setting("ad-psgd", n, "complete", SLOW), steps)
    assert timeline.last[-1] == pytest.approx(n * steps / (n - 1 + 1 / 3), rel=0.02)


@pytest.mark.parametrize("algorithm", ["awc", "atc"])
def test_a_single_delay_travels_one_hop_a_step_on_a_ring(algorithm):
    n, steps, where = 15, 7, 7
    factors = np.ones((steps, n))
    factors[0, where] = 20  # a hop with AWC takes off the compute of one step
    late = setting(algorithm, n, compute=ComputeTimes(n, 1.0, Given(factors)))
    for t in range(1, steps + 1):
        delayed = np.flatnonzero(simulate(late, t).end > t)
        hops = t - 1 if algorithm == "awc" else t
        assert delayed.tolist() == list(range(where - hops, where + hops + 1))


def test_gossip_lies_between_no_synchronisation_and_waiting_for_all():
    n = 16
    ring, everyone = (
        simulate(setting(a, n, straggler=EXPONENTIAL), 1500).seconds_per_step
        for a in ("awc", "ssgd")
    )
    assert 1.5 <= ring < everyone
