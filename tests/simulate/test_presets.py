"""Networks by name: what each says of a message; and networks in files, good and bad."""

import math

import numpy as np
import pytest

from gossip.errors import UserError
from gossip.simulate.network import SEGMENT, Link, Network
from gossip.simulate.presets import PRESETS, network

M = 1e8
ALONE = {
    "ideal": (0.0, 0.0),
    "1GbE": (50e-6, 8e-9),
    "10GbE": (30e-6, 0.8e-9),
    "25GbE": (30e-6, 0.32e-9),
    "100Gb-IB": (2e-6, 0.08e-9),
    "NVLink": (1e-6, 1 / 150e9),
    "adadamp-moderate": (0.05e-6, 8 / 54e9),
    "adadamp-high": (0.025e-6, 8 / 800e9),
    "home-fibre": (8e-3, 8 / 100e6),
    "4G": (25e-3, 8 / 10e6),
    "cloud-regions": (1e-4, 8 / 10e9),
}
"""Latency and seconds per byte of a message that nothing else delays."""


@pytest.mark.parametrize("name", PRESETS)
def test_a_message_takes_the_latency_and_the_bytes_of_its_preset(name):
    latency, byte = ALONE[name]
    for m in (0.0, 1.0, M):
        seconds = network(name).seconds(np.array([0]), np.array([1]), m)
        assert seconds == pytest.approx(latency + m * byte, rel=1e-12)


def test_at_home_less_goes_out_than_comes_in_and_each_message_is_late_by_its_own():
    one, other = np.array([0]), np.array([1])
    for name, ratio, late in (("home-fibre", 5, 1e-3), ("4G", 3, 10e-3)):
        (link,) = set(network(name).links.values())
        assert link.down / link.up == pytest.approx(ratio)
        assert network(name).jitter(one, other) == late


def test_regions_of_a_cloud_are_far_from_each_other():
    """40 ms, over which TCP with one packet lost in a million is slower than the line."""
    cloud = network("cloud-regions")
    here, there = np.array([0, 0]), np.array([7, 8])
    near, far = cloud.seconds(here[:1], there[:1], M)[0], cloud.seconds(here[1:], there[1:], M)[0]
    assert near == pytest.approx(1e-4 + M * 0.8e-9)
    assert far == pytest.approx(40e-3 + M / (SEGMENT / 80e-3 * math.sqrt(1.5 / 1e-6)))
    assert cloud.jitter(here, there).tolist() == [0, 2e-3]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_carries_messages_between_many_learners(name):
    k = np.repeat(np.arange(64), 2)
    seconds = network(name).seconds(k, (k + np.tile([1, 20], 64)) % 64, M)
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
