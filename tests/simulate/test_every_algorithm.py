"""Every algorithm of the table has its time, by nothing but what it says of its own step."""

from dataclasses import replace

import pytest

from gossip.algorithms import ALGORITHMS, ASYNCHRONOUS
from gossip.algorithms import pattern as phases
from gossip.config import Averaging, Config
from gossip.simulate import scenario
from gossip.simulate.engine import simulate
from gossip.simulate.network import Network
from gossip.simulate.presets import network
from gossip.simulate.scenario import Machines
from gossip.simulate.timeline import Timeline
from tests.fits import fitted, topologies_of
from tests.simulate.networks import flat

N, M, C = 6, 1e8, 1e-3
NAMES = [*ALGORITHMS, *ASYNCHRONOUS]


def timeline(name: str, net: Network, row_bytes: float = M, **machines) -> Timeline:
    graph = topologies_of(name)[0] if name in ALGORITHMS else "ring"
    config = Config(gossip=Averaging(learners=N, topology=graph))
    config = fitted(name, config) if name in ALGORITHMS else config
    machines = Machines(**{"network": net, "seconds": C, **machines})
    made = scenario.setting(name, config, machines, row_bytes)
    return simulate(made, made.whole(6))


def gradients(name: str) -> int:
    """Of a step."""
    config = Config(gossip=Averaging(learners=N))
    config = fitted(name, config) if name in ALGORITHMS else config
    computing = phases.LocalGradient | phases.Overlapped | phases.Pairwise
    found = scenario.setting(name, config, Machines(network=flat(), seconds=C), M).pattern
    return sum(isinstance(phase, computing) for phase in found)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_network_a_step_is_its_gradients(name):
    free = timeline(name, network("ideal"))
    assert free.seconds_per_step == pytest.approx(C * gradients(name))
    assert free.sent.messages > 0


@pytest.mark.parametrize("name", NAMES)
def test_with_one_it_is_longer_by_latency_bytes_and_the_work_of_processors(name):
    base = timeline(name, flat())
    assert base.seconds_per_step > C * gradients(name)
    for worse in (flat(alpha=1.0), flat(beta=8e-9), flat(handling=1e-7), flat(overhead=1.0)):
        slower = timeline(name, worse)
        assert slower.seconds_per_step > base.seconds_per_step
        assert slower.sent == base.sent
    shared = replace(flat(handling=1e-7), learners_per_host=N, cores=1)
    assert timeline(name, shared).seconds_per_step > slower_of_own(name)


def slower_of_own(name: str) -> float:
    """Seconds a step where each learner has a processor for its messages."""
    return timeline(name, replace(flat(handling=1e-7), learners_per_host=N)).seconds_per_step


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_bytes_at_twice_the_bandwidth_are_the_same(name):
    """But for single numbers beside a row, which have four bytes whatever it has."""
    one, two = timeline(name, flat()), timeline(name, flat().scaled(2), 2 * M)
    assert two.last == pytest.approx(one.last, rel=1e-6)
