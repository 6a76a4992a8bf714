"""What must not change the seconds of a step, whatever the network and the algorithm."""

from dataclasses import replace

import numpy as np
import pytest

import topologies
from gossip.simulate.collectives import ALL_REDUCES
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from gossip.simulate.network import Link, Network
from tests.simulate.networks import flat
from tests.simulate.settings import EXPONENTIAL, PATTERNS, SYNCHRONOUS, Given, setting

M = 1e8


@pytest.mark.parametrize("algorithm", PATTERNS)
@pytest.mark.parametrize("topology", ["ring", "matching", "one-peer-exponential", "complete"])
def test_without_network_and_stragglers_there_is_only_compute(algorithm, topology):
    timeline = simulate(setting(algorithm, 8, topology), 12)
    np.testing.assert_array_equal(timeline.last, np.arange(1, 13))
    np.testing.assert_array_equal(timeline.idle, 0)


@pytest.mark.parametrize("algorithm", SYNCHRONOUS)
def test_permuting_the_learners_changes_nothing(algorithm):
    n, steps = 10, 12
    draws = np.random.default_rng(1).uniform(1, 2, (steps, n))
    order = np.random.default_rng(2).permutation(n)
    w = topologies.build("ring", n).matrix(0)
    permuted = w[order][:, order].tocsr()
    straight = setting(algorithm, n, network=flat(), compute=ComputeTimes(n, 0.1, Given(draws)))
    moved = replace(
        straight,
        mixing=lambda t: permuted,
        compute=ComputeTimes(n, 0.1, Given(draws[:, order])),
    )
    np.testing.assert_allclose(
        simulate(moved, steps).end, simulate(straight, steps).end[order], rtol=1e-12
    )


@pytest.mark.parametrize("algorithm", PATTERNS)
def test_doubling_bytes_and_bandwidth_changes_nothing(algorithm):
    one = setting(algorithm, 8, straggler=EXPONENTIAL, network=flat())
    two = replace(one, network=flat().scaled(2), row_bytes=2 * M)
    np.testing.assert_allclose(simulate(two, 20).last, simulate(one, 20).last, rtol=1e-12)


@pytest.mark.parametrize("algorithm", PATTERNS)
def test_a_link_that_is_not_used_slows_nobody(algorithm):
    """However bad it is, and whatever the average is made by."""
    rack = flat().links["rack"]
    bad = Link(latency=9, up=1, down=1, jitter=1, loss=0.5, overhead=1, gap=1, handling=1)
    more = dict.fromkeys(("host", "region", "world"), bad) | {"rack": rack}
    for name in ALL_REDUCES if algorithm == "ssgd" else ("ring",):
        alone = Network(name="alone", links={"rack": rack})
        without = setting(algorithm, 8, straggler=EXPONENTIAL, network=alone, all_reduce=name)
        with_it = replace(without, network=Network(name="more", links=more))
        assert simulate(with_it, 9).end.tolist() == simulate(without, 9).end.tolist()


def test_all_algorithms_meet_the_same_disturbances():
    n, steps = 8, 40
    busy = [simulate(setting(a, n, straggler=EXPONENTIAL), steps).busy for a in SYNCHRONOUS]
    for other in busy[1:]:
        np.testing.assert_array_equal(other, busy[0])


def test_learners_with_no_step_in_common_meet_the_same_disturbances():
    """The k-th gradient of each is as slow as in step k, however many it has computed."""
    n, steps = 8, 40
    made = setting("ad-psgd", n, straggler=EXPONENTIAL)
    by_gradients = np.cumsum([made.compute.at(k) for k in range(4 * steps)], axis=0)
    for i, busy in enumerate(simulate(made, steps).busy):
        assert np.abs(by_gradients[:, i] / busy - 1).min() < 1e-12
