"""How long messages take: closed forms of links, shared interfaces, hierarchies, loss."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gossip.errors import UserError
from gossip.simulate.network import Link, Network
from gossip.simulate.presets import uniform
from tests.simulate.networks import ALPHA, BETA, flat

M = 1e8


def neighbours(n, *offsets):
    """Everyone sends to the learners so much further."""
    k = np.repeat(np.arange(n), len(offsets))
    return k, (k + np.tile(offsets, n)) % n


def test_messages_to_d_neighbours_share_one_interface_or_wait_for_each_other():
    for d in (1, 2, 5):
        ends = neighbours(16, *range(1, d + 1))
        assert flat().seconds(*ends, M) == pytest.approx(ALPHA + d * M * BETA)
        assert flat().seconds(*ends, M, serial=True) == pytest.approx(d * (ALPHA + M * BETA))


def test_the_published_seconds_of_one_and_of_two_peers():
    assert flat().seconds(*neighbours(16, 1), M) == pytest.approx(0.080005, abs=1e-9)
    assert flat().seconds(*neighbours(16, 1, -1), M) == pytest.approx(0.160005, abs=1e-9)
    assert flat().seconds(*neighbours(1024, 1), M) == pytest.approx(0.080005, abs=1e-9)
    assert flat(beta=0.08e-9).seconds(*neighbours(4096, 1), M) == pytest.approx(0.0080, abs=5e-5)


def test_half_duplex_sends_and_receives_in_turn():
    half = flat(duplex="half")
    assert half.seconds(*neighbours(8, 3), M) == pytest.approx(ALPHA + 2 * M * BETA)
    # Learner 0 only sends: nothing arrives that would have to wait.
    one_way = half.seconds(np.array([0]), np.array([1]), M)
    assert one_way == pytest.approx(ALPHA + M * BETA)


def test_the_narrower_direction_decides():
    adsl = uniform("adsl", ALPHA, 1e6, 8e6)
    assert adsl.seconds(*neighbours(8, 1), M) == pytest.approx(ALPHA + M / 1e6)
    everyone_to_0 = np.arange(1, 17), np.zeros(16, int)
    assert adsl.seconds(*everyone_to_0, M) == pytest.approx(ALPHA + 16 * M / 8e6)


def test_loggp():
    o, g, n_bytes = 2e-6, 1e-5, 1000.0
    link = flat(overhead=o, gap=g)
    whole = (n_bytes - 1) * BETA
    assert link.seconds(*neighbours(8, 1), n_bytes) == pytest.approx(ALPHA + 2 * o + whole)
    three = ALPHA + 2 * o + whole + 2 * max(g, o + whole)
    assert link.seconds(*neighbours(8, 1, 2, 3), n_bytes) == pytest.approx(three)


def test_learners_of_a_host_share_its_interface_and_talk_faster_among_themselves():
    near, far = Link(latency=1e-6, up=1e11, down=1e11, shared_by="learner"), flat().links["rack"]
    machines = Network(name="m", links={"host": near, "rack": far}, learners_per_host=4)
    across = machines.seconds(*neighbours(8, 4), M)
    assert across == pytest.approx(ALPHA + 4 * M * BETA)
    ring = dict(zip(neighbours(8, 1)[0], machines.seconds(*neighbours(8, 1), M), strict=True))
    assert [ring[k] for k in (3, 7)] == pytest.approx([ALPHA + M * BETA] * 2)
    assert [ring[k] for k in (0, 1, 2, 4)] == pytest.approx([1e-6 + M / 1e11] * 4)


def test_classes_of_links_follow_from_where_learners_sit():
    link = flat().links["rack"]
    nested = Network(
        name="n",
        links=dict.fromkeys(("host", "rack", "region", "world"), link),
        learners_per_host=2,
        hosts_per_rack=2,
        racks_per_region=2,
    )
    others = np.array([1, 2, 4, 8])
    assert nested.classes(np.zeros(4, int), others).tolist() == [0, 1, 2, 3]


def test_an_uplink_can_be_shared_by_a_rack():
    link = flat().links["rack"]
    uplink = replace(link, shared_by="rack")
    racks = Network(name="r", links={"rack": link, "region": uplink}, hosts_per_rack=4)
    assert racks.seconds(*neighbours(8, 4), M) == pytest.approx(ALPHA + 4 * M * BETA)


def test_lost_packets_bound_the_bandwidth_the_more_the_longer_the_way():
    slow = uniform("lossy", 0.05, 1e9, loss=1e-4)
    bound = 1460 / 0.1 * math.sqrt(1.5 / 1e-4)
    assert slow.seconds(*neighbours(4, 1), M) == pytest.approx(0.05 + M / bound)
    assert uniform("near", 0.0, 1e9, loss=1e-4).seconds(*neighbours(4, 1), M)[0] == M / 1e9


def test_doubling_bytes_and_bandwidth_changes_nothing():
    ends = neighbours(8, 1, 3)
    np.testing.assert_allclose(
        flat().scaled(2).seconds(*ends, 2 * M), flat().seconds(*ends, M), rtol=1e-15
    )


def test_a_link_that_is_missing_is_named_when_it_is_needed():
    alone = Network(name="alone", links={"host": flat().links["host"]}, learners_per_host=2)
    assert len(alone.seconds(np.array([0]), np.array([1]), M)) == 1
    with pytest.raises(UserError, match=r"across a rack link .* add \[links.rack\]"):
        alone.seconds(np.array([0]), np.array([2]), M)
