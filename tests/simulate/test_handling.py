"""Messages that cost processors: closed forms on hosts whose learners share their cores."""

from dataclasses import replace

import numpy as np
import pytest

from gossip.simulate.collectives import ALL_REDUCES, all_reduce
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from gossip.simulate.network import Link, Network
from tests.simulate.networks import ALPHA, BETA, flat
from tests.simulate.settings import EXPONENTIAL, PATTERNS, setting

M, H, OVERHEAD = 1e8, 1e-9, 1e-3
WIRE = {"host": Link(latency=ALPHA, up=1 / BETA, down=1 / BETA, shared_by="learner")}


def one_machine(n: int, *, cores: float, handling: float = H, overhead: float = 0.0) -> Network:
    """N learners on one host, with an interface each."""
    link = replace(WIRE["host"], handling=handling, overhead=overhead)
    return Network(name="one", links={"host": link}, learners_per_host=n, cores=cores)


def per_step(algorithm: str, network: Network, n: int, c: float) -> float:
    made = setting(algorithm, n, network=network, compute=ComputeTimes(n, c))
    return simulate(made, 6).seconds_per_step


@pytest.mark.parametrize("cores", [0, 2, 8, 100])
def test_a_ring_on_shared_cores(cores):
    """Two rows leave and two arrive; n learners share the cores, and none uses two of them."""
    n, c = 8, 0.05
    machine = one_machine(n, cores=cores)
    handling = 4 * M * H * (max(1, n / cores) if cores else 1)
    gossip = ALPHA + 2 * M * BETA
    assert per_step("atc", machine, n, c) == pytest.approx(c + max(gossip, handling))
    assert per_step("awc", machine, n, c) == pytest.approx(max(gossip, c + handling))


def test_what_leaves_and_arrives_cannot_be_hidden_behind_a_gradient():
    """Of a message with an overhead o, as in LogP: it is the processor that sends it."""
    n, c = 4, 1.0
    machine = one_machine(n, cores=0, handling=0, overhead=OVERHEAD)
    assert per_step("awc", machine, n, c) == pytest.approx(c + 4 * OVERHEAD)


def test_a_ring_all_reduce_on_shared_cores():
    n, cores = 8, 2
    machine = one_machine(n, cores=cores, overhead=OVERHEAD)
    stage = 2 * (OVERHEAD + M / n * H) * n / cores
    cost = all_reduce("ring", n, M, machine)
    assert cost.seconds == pytest.approx(2 * (n - 1) * stage)
    assert cost.handling == pytest.approx(cost.seconds)
    # A wire that is slower hides it.
    slow = replace(machine, links={"host": replace(machine.links["host"], up=1e7, down=1e7)})
    assert all_reduce("ring", n, M, slow).seconds == pytest.approx(
        2 * (n - 1) * (ALPHA + 2 * OVERHEAD + (M / n - 1) / 1e7)
    )


def test_a_server_has_cores_of_its_own():
    n, cores = 8, 2
    machine = one_machine(n, cores=cores, handling=1e-6)
    assert all_reduce("parameter-server", n, M, machine).seconds == pytest.approx(
        2 * n / cores * M * 1e-6
    )


@pytest.mark.parametrize("algorithm", PATTERNS)
def test_cores_that_have_nothing_to_do_change_nothing(algorithm):
    one = setting(algorithm, 8, straggler=EXPONENTIAL, network=flat())
    two = replace(one, network=replace(flat(), cores=1))
    assert simulate(two, 20).last.tolist() == simulate(one, 20).last.tolist()


@pytest.mark.parametrize("algorithm", PATTERNS)
def test_more_cores_and_less_to_do_are_never_slower(algorithm):
    def seconds(cores, handling):
        machine = one_machine(8, cores=cores, handling=handling)
        made = setting(algorithm, 8, straggler=EXPONENTIAL, network=machine)
        return simulate(made, 20).seconds_per_step

    by_cores = [seconds(cores, 2e-9) for cores in (1, 2, 4, 8, 16)]
    assert by_cores == sorted(by_cores, reverse=True)
    assert by_cores[0] > by_cores[-1]
    by_handling = [seconds(2, h) for h in (0, 1e-9, 4e-9)]
    assert by_handling == sorted(by_handling)


def test_partners_pay_for_what_they_send_and_answer():
    """There and back, both ends of each; on average a learner answers as often as it asks."""
    n, c = 2, 1.0
    machine = one_machine(n, cores=2)
    assert per_step("ad-psgd", machine, n, c) == pytest.approx(c + 4 * M * H)
    assert per_step("ad-psgd", replace(machine, cores=1), n, c) == pytest.approx(c + 8 * M * H)


@pytest.mark.parametrize("name", sorted(set(ALL_REDUCES) - {"parameter-server"}))
def test_an_average_is_as_long_as_the_work_of_its_host(name):
    """All bytes are handled at two ends, by the cores of one host, however they travel."""
    n, cores = 8, 2
    link = replace(WIRE["host"], latency=0.0, handling=H, up=1e15, down=1e15)
    machine = Network(name="one", links={"host": link}, learners_per_host=n, cores=cores)
    cost = all_reduce(name, n, M, machine)
    work = 2 * n * cost.sent.bytes * H / cores
    if name == "tree":  # its last stages have two learners, one of whom sends: a core each
        assert cost.seconds > work * 0.999
    else:
        assert cost.seconds == pytest.approx(work, rel=1e-3)


def test_hosts_pay_for_their_own_messages_alone():
    """A star: the host of its centre handles what all send, the others their own."""
    n = 6
    machines = Network(
        name="m",
        links={"host": WIRE["host"], "rack": flat(handling=H).links["rack"]},
        learners_per_host=2,
        cores=1,
    )
    leaves = np.arange(2, n)
    found = machines.handling(n, leaves, np.zeros(len(leaves), int), M)
    assert found.tolist() == pytest.approx([4 * M * H] * 2 + [2 * M * H] * 4)
