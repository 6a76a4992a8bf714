"""Gossip between hosts: an average within each, a message between, a broadcast."""

import math

import numpy as np
import pytest

import topologies
from gossip.simulate import command
from gossip.simulate.engine import simulate
from gossip.simulate.network import Link, Network
from tests.simulate.networks import flat
from tests.simulate.settings import EXPONENTIAL, setting

M = 1e8
INSIDE, OUTSIDE = (1e-6, 1e-11), (5e-6, 0.8e-9)
"""alpha and beta within hosts and between them."""


def lab(p):
    inside = Link(latency=INSIDE[0], up=1 / INSIDE[1], down=1 / INSIDE[1], shared_by="learner")
    outside = Link(latency=OUTSIDE[0], up=1 / OUTSIDE[1], down=1 / OUTSIDE[1])
    return Network(name="lab", links={"host": inside, "rack": outside}, learners_per_host=p)


def gossip(algorithm, m, p, graph="one-peer-exponential", **more):
    mixing = topologies.build(graph, m).matrix
    return setting(algorithm, m * p, mixing=mixing, between_hosts=True, **more)


def within(p):
    """Seconds of the average and of the broadcast in a host."""
    alpha, beta = INSIDE
    average = 2 * (p - 1) * alpha + 2 * (p - 1) / p * M * beta
    return average, math.ceil(math.log2(p)) * (alpha + M * beta)


@pytest.mark.parametrize(("m", "p"), [(4, 8), (8, 2), (4, 3), (1, 4)])
def test_an_average_an_exchange_and_a_broadcast(m, p):
    (alpha, beta), (average, broadcast) = OUTSIDE, within(p)
    exchange = (alpha + M * beta) if m > 1 else 0.0
    inside = average + exchange + broadcast
    for algorithm, seconds in (("atc", 1 + inside), ("awc", max(1, inside))):
        found = simulate(gossip(algorithm, m, p, network=lab(p)), 4)
        assert found.seconds_per_step == pytest.approx(seconds, rel=1e-12), algorithm


def test_a_learner_on_each_host_gossips_as_ever():
    for algorithm in ("atc", "awc"):
        more = {"straggler": EXPONENTIAL, "network": flat()}
        one = simulate(gossip(algorithm, 8, 1, "ring", **more), 20)
        plain = simulate(setting(algorithm, 8, "ring", **more), 20)
        np.testing.assert_array_equal(one.last, plain.last)
        assert one.sent == plain.sent


def test_a_host_waits_for_its_slowest_and_for_its_neighbours():
    """The recursion written out: S = max over hosts k in and j of max_i (S_ki + C_ki) ..."""
    m, p, steps = 5, 3, 12
    made = gossip("atc", m, p, "ring", straggler=EXPONENTIAL, network=lab(p))
    (alpha, beta), (average, broadcast) = OUTSIDE, within(p)
    ready = np.zeros(m)
    for t in range(steps):
        host = ready + made.compute.at(t).reshape(m, p).max(axis=1) + average
        left, right = np.roll(host, 1), np.roll(host, -1)
        arrived = np.maximum(left, right) + alpha + 2 * M * beta
        ready = np.maximum(host, arrived) + broadcast
    found = simulate(made, steps)
    np.testing.assert_allclose(found.end, np.repeat(ready, p), rtol=1e-12)


def test_what_a_learner_sends():
    """2 (p - 1) / p M in the average, one of p learners d M, and the broadcast's p - 1 of p M."""
    m, p = 5, 4
    sent = simulate(gossip("awc", m, p, "ring", network=lab(p)), 1).sent
    assert sent.bytes == pytest.approx((2 * (p - 1) / p + 2 / p + (p - 1) / p) * M)
    assert sent.messages == pytest.approx(2 * (p - 1) + 2 / p + (p - 1) / p)


def test_processors_are_busy_with_their_own_part():
    """The host's first learner works most: its own averages, two messages out and two in."""
    p, o = 2, 0.1
    inside = Link(latency=0.0, up=1e30, down=1e30, shared_by="learner", overhead=o)
    network = Network(name="o", links={"host": inside, "rack": inside}, learners_per_host=p)
    found = simulate(gossip("awc", 4, p, "ring", network=network), 3)
    average, broadcast, between = 2 * (p - 1) * 2 * o, o, 4 * o
    # All of it is work, beside a gradient of 1 s.
    assert found.last[-1] == pytest.approx(3 * (1 + average + broadcast + between))


def test_the_command_joins_hosts(tmp_path, capsys):
    file = tmp_path / "lab.toml"
    file.write_text(
        "learners_per_host = 8\n[links.host]\nlatency = 1e-6\nbandwidth = 8e11\n"
        'shared_by = "learner"\n[links.rack]\nlatency = 5e-6\nbandwidth = 1.25e9\n'
    )
    words = ["--learners", "32", "--network", str(file), "--algorithm", "dpsgd", "--steps", "4"]
    words += ["--topology", "one-peer-exponential", "--parameters", "2.5e7", "--compute", "0"]
    assert command.main([*words, "--between-hosts"]) == 0
    average, broadcast = within(8)
    seconds = average + OUTSIDE[0] + M * 6.4e-9 + broadcast
    assert f"dpsgd on one-peer-exponential is fastest, {seconds:.4g} s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--learners", "6"], "--between-hosts with 6 learners, 4 on a host: the last host"),
     (["--algorithm", "ad-psgd"], "--between-hosts with ad-psgd: its learners average in pairs")],
)  # fmt: skip
def test_mistakes(words, sentence, tmp_path, capsys):
    file = tmp_path / "lab.toml"
    link = "latency = 0\nbandwidth = 1e9\n"
    file.write_text(f"learners_per_host = 4\n[links.host]\n{link}[links.rack]\n{link}")
    command_line = [*words, "--network", str(file), "--between-hosts", "--steps", "2"]
    assert command.main(command_line) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
