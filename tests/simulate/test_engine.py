"""The max-plus recursions against closed forms, facts and an event-by-event reference."""

import tracemalloc
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
import pytest

import topologies
from gossip.algorithms import pattern as phases
from gossip.comm import costs
from gossip.simulate.collectives import ALL_REDUCES, all_reduce
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import NUMBER, simulate
from gossip.simulate.network import Network
from gossip.simulate.presets import network
from tests.simulate.networks import ALPHA, BETA, flat
from tests.simulate.settings import EXPONENTIAL, PATTERNS, SYNCHRONOUS, Given, setting

M = 1e8


@pytest.mark.parametrize("algorithm", SYNCHRONOUS)
def test_with_equal_links_a_step_is_compute_and_its_messages(algorithm):
    n, c = 16, 0.05
    gossip = ALPHA + 2 * M * BETA
    mean = 2 * (n - 1) * ALPHA + 2 * (n - 1) / n * M * BETA
    seconds = {"ssgd": c + mean, "awc": max(c, gossip), "atc": c + gossip}[algorithm]
    made = setting(algorithm, n, network=flat(), compute=ComputeTimes(n, c))
    timeline = simulate(made, 20)
    assert timeline.seconds_per_step == pytest.approx(seconds)
    sent = {"ssgd": costs.mean(n, M)}.get(algorithm, costs.mix(2, M))
    assert timeline.sent_per_step == pytest.approx(sent)


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_ssgd_waits_for_the_slowest_gradient_and_then_for_the_average(name):
    n, steps = 6, 40
    made = setting("ssgd", n, straggler=EXPONENTIAL, network=flat(), all_reduce=name)
    slowest = sum(made.compute.at(t).max() for t in range(steps))
    average = all_reduce(name, n, M, flat())
    timeline = simulate(made, steps)
    assert timeline.last[-1] == pytest.approx(slowest + steps * average.seconds, rel=1e-12)
    assert timeline.sent_per_step == pytest.approx(average.sent)


def test_an_exchange_of_all_with_all_is_a_mixing_by_the_complete_graph():
    """Whatever W is: here a ring, of which nobody asks."""
    n, c = 6, 0.05
    made = setting("ssgd", n, "ring", network=flat(), compute=ComputeTimes(n, c))
    exchange = replace(made, pattern=(phases.AllGather(), phases.LocalGradient()))
    timeline = simulate(exchange, 10)
    assert timeline.seconds_per_step == pytest.approx(c + ALPHA + (n - 1) * M * BETA)
    assert timeline.sent_per_step == pytest.approx(costs.mix(n - 1, M))


def test_partners_swap_whatever_w_is():
    n, c = 6, 0.05
    made = setting("ssgd", n, "ring", network=flat(), compute=ComputeTimes(n, c))
    swap = replace(made, pattern=(phases.LocalGradient(), phases.Partner(2)))
    timeline = simulate(swap, 10)
    assert timeline.seconds_per_step == pytest.approx(c + ALPHA + 2 * M * BETA)
    assert timeline.sent_per_step == pytest.approx(costs.mix(1, 2 * M))


def test_rounds_may_begin_late_and_phases_end():
    """Averages in steps 0 to 2, then after steps 3 + 4 and 3 + 8."""
    n = 6
    made = setting("ssgd", n, network=flat(), compute=ComputeTimes(n, 0.0))
    rounds = phases.Every(4, phases.Mean(), after=3)
    timeline = simulate(replace(made, pattern=(phases.Until(3, phases.Mean()), rounds)), 12)
    assert timeline.sent_per_step == pytest.approx(tuple(5 / 12 * x for x in costs.mean(n, M)))


@pytest.mark.parametrize("late", [0, 1, 3, 4])
def test_an_average_is_hidden_by_the_steps_that_it_may_come_late(late):
    """Every 4 steps one of T seconds begins: max(0, T - late c) of them is waited for."""
    n, c, steps = 6, 0.05, 44
    made = setting("ssgd", n, network=flat(), compute=ComputeTimes(n, c))
    rounds = phases.Every(4, phases.Late(late, phases.Mean()), after=late)
    timeline = simulate(replace(made, pattern=(phases.LocalGradient(), rounds)), steps)
    mean = 2 * (n - 1) * ALPHA + 2 * (n - 1) / n * M * BETA
    waits = (steps - late) // 4
    assert mean > c
    assert timeline.last[-1] == pytest.approx(steps * c + waits * max(0.0, mean - late * c))
    assert timeline.sent_per_step == pytest.approx(
        tuple(waits / steps * s for s in costs.mean(n, M))
    )


def test_numbers_beside_an_average_are_averaged_with_it():
    n, m = 6, 3 * NUMBER
    made = setting("ssgd", n, network=flat(), compute=ComputeTimes(n, 0.0))
    timeline = simulate(replace(made, pattern=(phases.Mean(0, numbers=3),)), 10)
    assert timeline.sent_per_step == pytest.approx(costs.mean(n, m))
    seconds = 2 * (n - 1) * ALPHA + 2 * (n - 1) / n * m * BETA
    assert timeline.seconds_per_step == pytest.approx(seconds)


def test_an_averaging_goes_there_and_back_beside_the_gradient():
    for c in (0.05, 1.0):
        made = setting("ad-psgd", 2, network=flat(), compute=ComputeTimes(2, c, Given([[1, 1]])))
        free = replace(made, mixing=topologies.build("ring", 2).matrix)
        there_and_back = 2 * (ALPHA + M * BETA)
        expected = max(c, there_and_back)  # each answers the other while it waits
        assert simulate(free, 50).seconds_per_step == pytest.approx(expected, rel=0.05)


def slow_reference(made, steps):
    """S_j(t) learner by learner and message by message."""
    n, ready = made.n, np.zeros(made.n)
    for t in range(steps):
        w, c, end = made.mixing(t).toarray(), made.compute.at(t), np.zeros(made.n)
        for j in range(n):
            arrivals = [
                ready[k] + float(made.network.seconds(*_ends(w), made.row_bytes)[index])
                for index, (k, to) in enumerate(zip(*_ends(w), strict=True))
                if to == j
            ]
            end[j] = max([ready[j] + c[j], *arrivals])
        ready = end
    return ready


def _ends(w):
    receivers, senders = np.nonzero(w - np.diag(np.diag(w)))
    return senders, receivers


@pytest.mark.parametrize("topology", ["ring", "star", "matching", "one-peer-exponential"])
def test_it_is_the_recursion_written_out(topology):
    machines = Network(name="m", links=network("10GbE").links, learners_per_host=3)
    made = setting("awc", 9, topology, ("lognormal",), network=machines)
    np.testing.assert_allclose(simulate(made, 6).end, slow_reference(made, 6), rtol=1e-12)


def test_learners_without_neighbours_end_at_the_same_moments_in_event_time():
    n, steps = 6, 30
    alone = {"mixing": topologies.build("periodic", n, every=10**6).matrix}
    draws = np.random.default_rng(0).uniform(1, 2, (steps, n))
    made = setting("awc", n, compute=ComputeTimes(n, 1.0, Given(draws)), **alone)
    common = simulate(made, steps)
    np.testing.assert_allclose(common.end, draws.sum(0), rtol=1e-12)
    finishes = np.sort(np.cumsum(np.tile(draws, (2, 1)), axis=0).ravel())
    events = simulate(replace(made, pattern=PATTERNS["ad-psgd"]), steps)
    np.testing.assert_allclose(events.last, finishes[n - 1 : n * steps : n], rtol=1e-12)


def by_events(made, steps):
    """The same learners as single events: a gradient that ends, a row that arrives."""
    n, heap = made.n, []
    neighbours = [_ends(made.mixing(t).toarray()) for t in range(steps)]
    waits, latest = {}, {}

    def begin(j, t, now):
        if t == steps:
            latest[j] = now
            return
        k, to = neighbours[t]
        waits[j, t] = waits.get((j, t), 0) + 1 + int((to == j).sum())
        heappush(heap, (now + made.compute.at(t)[j], j, t))
        seconds = made.network.seconds(k, to, made.row_bytes)
        for index in np.flatnonzero(k == j):
            heappush(heap, (now + float(seconds[index]), int(to[index]), t))

    for j in range(n):
        begin(j, 0, 0.0)
    while heap:
        now, j, t = heappop(heap)
        # A row may come before its receiver has begun the step: it has to be waited for all the
        # same, so what is missing goes below zero and is evened out when the step begins.
        waits[j, t] = waits.get((j, t), 0) - 1
        if waits[j, t] == 0:
            begin(j, t + 1, now)
    return np.array([latest[j] for j in range(n)])


@pytest.mark.parametrize("topology", ["ring", "star", "matching", "one-peer-exponential"])
def test_event_by_event_the_moments_are_the_same(topology):
    draws = Given(np.random.default_rng(5).uniform(1, 2, (9, 8)))
    made = setting("awc", 8, topology, network=flat(), compute=ComputeTimes(8, 0.1, draws))
    np.testing.assert_allclose(simulate(made, 9).end, by_events(made, 9), rtol=1e-12)


def test_jitter_delays_and_is_the_same_when_asked_again():
    made = setting("awc", 8, network=flat(jitter=0.5), compute=ComputeTimes(8, 0.01))
    first, again = simulate(made, 200), simulate(made, 200)
    assert first.end.tolist() == again.end.tolist()
    still = simulate(replace(made, network=flat()), 200)
    assert first.seconds_per_step > still.seconds_per_step + 0.5


@pytest.mark.parametrize("topology", ["ring", "one-peer-exponential", "matching"])
def test_65536_learners_need_memory_for_their_edges_alone(topology):
    n = 65_536
    made = setting("awc", n, topology, network=network("10GbE"))
    made.mixing(0)  # a graph is made by objects that tracemalloc makes slow
    tracemalloc.start()
    try:
        timeline = simulate(made, 3)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1000 * n  # bytes; a bit for each pair of learners would be 8192 n
    d = {"ring": 2}.get(topology, 1)
    assert timeline.sent_per_step == costs.mix(d, M)
    assert timeline.seconds_per_step == pytest.approx(1.0)


def test_65536_learners_make_an_average():
    n = 65_536
    made = setting("ssgd", n, "matching", network=flat(), all_reduce="halving-doubling")
    seconds = 1 + 2 * 16 * ALPHA + 2 * (n - 1) / n * M * BETA
    assert simulate(made, 3).seconds_per_step == pytest.approx(seconds)
