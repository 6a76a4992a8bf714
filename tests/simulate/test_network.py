"""How long messages take: closed forms of links, shared interfaces, hierarchies, loss."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gossip.errors import UserError
from gossip.simulate.network import Link, Network
from gossip.simulate.presets import PRESETS, network, uniform
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


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_carries_messages_between_many_learners(name):
    seconds = network(name).seconds(*neighbours(64, 1, 20), M)
    assert np.isfinite(seconds).all()
    assert (seconds > 0).all() == (name != "ideal")


FILE = """
learners_per_host = 2
reduce = 1e-10
cores = 4
[links.host]
latency = "1 us"
bandwidth = "100 Gbit/s"
shared_by = "learner"
[links.rack]
latency = 3e-5
up = "1 gbit/s"
down = "10 Gbit/s"
jitter = "1 ms"
overhead = 2e-5
handling = 1e-9
"""


def test_a_file_says_the_same_as_the_objects(tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text(FILE)
    near = Link(latency=1e-6, up=12.5e9, down=12.5e9, shared_by="learner")
    far = Link(latency=3e-5, up=0.125e9, down=1.25e9, jitter=1e-3, overhead=2e-5, handling=1e-9)
    links = {"host": near, "rack": far}
    same = Network(name="lab", links=links, learners_per_host=2, reduce=1e-10, cores=4)
    assert network(str(file)) == same


BAD = [
    ("", "it has no links: add"),
    ("[links.hots]\nlatency=0\nbandwidth=1", "unknown class of links 'hots': did you mean host?"),
    ("[links.host]\nbandwidth=1", r"links.host has no latency: add it"),
    ("[links.host]\nlatency=0\nup=1", r"links.host has no bandwidth, or up and down: add it"),
    ("[links.host]\nlatency=-1\nbandwidth=1", "links.host: latency=-1.0: give seconds from 0 up"),
    ("[links.host]\nlatency='1 s'\nbandwidth=0", "up=0.0: a bandwidth is above 0"),
    ("[links.host]\nlatency='1 h'\nbandwidth=1", "latency='1 h': give a number with a unit of s,"),
    ("[links.host]\nlatency=nan\nbandwidth=1", "latency=nan: give seconds"),
    ("[links.host]\nlatency=0\nbandwith=1", "unknown key 'bandwith': did you mean bandwidth?"),
    ("[links.host]\nlatency=0\nbandwidth=1\nloss=1", "loss=1.0: give the share of lost packets"),
    ("[links.host]\nlatency=0\nbandwidth=1\nduplex='no'", "duplex=no: it is full or half"),
    (
        "learners_per_host=0\n[links.host]\nlatency=0\nbandwidth=1",
        "learners_per_host=0: it must be",
    ),
    ("learners_per_host='2'\n[links.host]\nlatency=0\nbandwidth=1", "give a whole number"),
    ("cores=-1\n[links.host]\nlatency=0\nbandwidth=1", "cores=-1.0: give the processors"),
    ("[links.host]\nlatency=0\nbandwidth=1\nhandling=-1", "handling=-1.0: give seconds per byte"),
    ("links=3", "it has no links"),
    ("[links", "it is not TOML"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD)
def test_a_bad_file_is_answered_in_one_sentence(text, sentence, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=sentence) as caught:
        network(str(file))
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_network_that_is_not_there_is_answered_with_one_that_is():
    with pytest.raises(UserError, match=r"unknown network '10Gbe': did you mean 10GbE\?"):
        network("10Gbe")
    with pytest.raises(UserError, match="no such file"):
        network("nowhere.toml")


def test_a_link_that_is_missing_is_named_when_it_is_needed():
    alone = Network(name="alone", links={"host": flat().links["host"]}, learners_per_host=2)
    assert len(alone.seconds(np.array([0]), np.array([1]), M)) == 1
    with pytest.raises(UserError, match=r"across a rack link .* add \[links.rack\]"):
        alone.seconds(np.array([0]), np.array([2]), M)
