"""All-reduces take what their closed forms say."""

import math

import numpy as np
import pytest

from gossip.comm import costs
from gossip.errors import UserError
from gossip.simulate.collectives import ALL_REDUCES, all_reduce, parameter_server
from gossip.simulate.network import Link, Network
from gossip.simulate.presets import uniform
from tests.simulate.networks import flat

M, ALPHA, BETA, GAMMA = 1e8, 5e-6, 0.8e-9, 1e-11


def slow_adding(alpha=ALPHA, beta=BETA):
    network = flat(alpha, beta)
    return Network(name="g", links=network.links, reduce=GAMMA)


@pytest.mark.parametrize("n", [2, 4, 16, 1024])
def test_closed_forms_on_a_network_of_equal_links(n):
    a, b, g, log, part = ALPHA, BETA, GAMMA, math.log2(n), (n - 1) / n
    forms = {
        "ring": 2 * (n - 1) * a + 2 * part * M * b + part * M * g,
        "recursive-doubling": log * (a + M * b + M * g),
        "halving-doubling": 2 * log * a + 2 * part * M * b + part * M * g,
        "tree": 2 * log * (a + M * b) + log * M * g,
        "double-tree": 2 * log * a + 2 * M * b + M * g,
        "parameter-server": 2 * a + 2 * n * M * b,
        "hierarchical": 2 * (n - 1) * a + 2 * part * M * b + part * M * g,
    }
    assert set(forms) == set(ALL_REDUCES)
    for name, seconds in forms.items():
        cost = all_reduce(name, n, M, slow_adding())
        assert cost.seconds == pytest.approx(seconds, rel=1e-12), name


@pytest.mark.parametrize("n", [2, 4, 16, 1024])
def test_what_is_sent_is_what_the_formulas_say(n):
    log, part = math.log2(n), (n - 1) / n
    sent = {
        "ring": costs.mean(n, M),
        "recursive-doubling": costs.Sent(log, log * M),
        "halving-doubling": costs.Sent(2 * log, 2 * part * M),
        "tree": costs.Sent(2 * part, 2 * part * M),
        "double-tree": costs.Sent(2 * part * 96, 2 * part * M),  # 96 pieces of at most 1 MiB
        "parameter-server": costs.Sent(2, 2 * M),
    }
    for name, expected in sent.items():
        assert all_reduce(name, n, M, flat()).sent == pytest.approx(expected), name


PUBLISHED = {
    (10e9, 16, "ring"): 0.15015,
    (10e9, 16, "halving-doubling"): 0.15004,
    (10e9, 16, "tree"): 0.64004,
    (10e9, 16, "parameter-server"): 2.56001,
    (10e9, 1024, "ring"): 0.17007,
    (10e9, 1024, "halving-doubling"): 0.15994,
    (100e9, 4096, "ring"): 0.0569,
    (100e9, 4096, "halving-doubling"): 0.0161,
}


@pytest.mark.parametrize(("bits", "n", "name"), PUBLISHED)
def test_seconds_that_were_computed_elsewhere(bits, n, name):
    seconds = all_reduce(name, n, M, flat(5e-6, 8 / bits)).seconds
    published = PUBLISHED[bits, n, name]
    digits = len(str(published).split(".")[1])
    assert abs(seconds - published) <= 0.6 * 10**-digits


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_one_learner_alone_waits_for_nothing_and_others_for_something(name):
    assert all_reduce(name, 1, M, flat()).seconds == 0
    assert all_reduce(name, 1, M, flat()).sent == (0, 0)
    for n in (3, 5, 6, 7, 12):
        assert all_reduce(name, n, M, flat()).seconds > ALPHA
        assert all_reduce(name, n, M, uniform("ideal", 0, math.inf)).seconds == 0


@pytest.mark.parametrize("name", ["recursive-doubling", "halving-doubling"])
def test_learners_beyond_a_power_of_two_cost_a_message_before_and_after(name):
    more, fewer = (all_reduce(name, n, M, flat()).seconds for n in (5, 4))
    assert more == pytest.approx(fewer + 2 * (ALPHA + M * BETA))


@pytest.mark.parametrize(("n", "levels"), [(3, 2), (5, 3), (6, 3), (12, 4), (1000, 10)])
def test_a_tree_has_as_many_levels_as_learners_have_digits(n, levels):
    expected = 2 * levels * (ALPHA + M * BETA) + levels * M * GAMMA
    assert all_reduce("tree", n, M, slow_adding()).seconds == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [3, 5, 16, 1000])
def test_two_trees_have_the_latency_of_a_tree_and_the_bytes_of_a_ring(n):
    """Also where n is no power of two; half duplex doubles the bytes' time."""
    levels = math.ceil(math.log2(n))
    assert all_reduce("double-tree", n, 0.0, flat()).seconds == pytest.approx(2 * levels * ALPHA)
    costly = all_reduce("double-tree", n, 0.0, flat(overhead=ALPHA)).seconds  # L + 2 o a message
    assert costly == pytest.approx(2 * levels * 3 * ALPHA)
    both = all_reduce("double-tree", n, M, flat()).seconds
    assert both == pytest.approx(2 * levels * ALPHA + 2 * M * BETA, rel=1e-12)
    assert both <= all_reduce("tree", n, M, flat()).seconds
    in_turn = all_reduce("double-tree", n, M, flat(duplex="half")).seconds
    assert in_turn == pytest.approx(2 * levels * ALPHA + 4 * M * BETA, rel=1e-12)


@pytest.mark.parametrize("n", [3, 5, 12, 1000])
def test_a_ring_has_any_number_of_learners(n):
    expected = 2 * (n - 1) * ALPHA + (n - 1) / n * M * (2 * BETA + GAMMA)
    assert all_reduce("ring", n, M, slow_adding()).seconds == pytest.approx(expected, rel=1e-12)


def test_servers_share_the_load():
    assert parameter_server(16, M, flat(), servers=4).seconds == pytest.approx(
        2 * ALPHA + 2 * 16 * M * BETA / 4
    )


def test_hosts_that_are_fast_inside_save_a_hierarchical_average_nearly_all_but_the_wire():
    near = Link(latency=0, up=math.inf, down=math.inf, shared_by="learner")
    machines = Network(
        name="m", links={"host": near, "rack": flat().links["rack"]}, learners_per_host=8
    )
    cost = all_reduce("hierarchical", 64, M, machines)
    # Eight rings of an eighth each share the interface: as one ring of the eight hosts.
    assert cost.seconds == pytest.approx(2 * 7 * ALPHA + 2 * 7 / 8 * M * BETA)
    assert cost.seconds < all_reduce("recursive-doubling", 64, M, machines).seconds
    # M/8 in each of 2 * 7 messages on the host, then M/64 in as many between hosts.
    assert cost.sent == pytest.approx((28, 14 * (M / 8 + M / 64)))
    with pytest.raises(UserError, match="give a multiple of 8 learners"):
        all_reduce("hierarchical", 63, M, machines)


def test_a_stage_waits_for_the_latest_of_its_messages():
    n, jitter = 16, 1e-3
    late = all_reduce("recursive-doubling", n, M, flat(jitter=jitter)).seconds
    drawn = np.random.default_rng(0).exponential(jitter, (4000, n)).max(axis=1).mean()
    assert late - all_reduce("recursive-doubling", n, M, flat()).seconds == pytest.approx(
        4 * drawn, rel=0.03
    )


def test_an_all_reduce_that_does_not_exist_is_answered_with_one_that_does():
    with pytest.raises(UserError, match=r"unknown all-reduce 'rings': did you mean ring\?"):
        all_reduce("rings", 4, M, flat())
