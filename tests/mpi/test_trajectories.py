"""The whole program on several processes walks the stacked backend's trajectory, in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from mpi4py import MPI

from gossip.algorithms import ALGORITHMS, NOISE_MODES, ORDERS
from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked
from gossip.comm.transports.gloo import Gloo
from gossip.comm.transports.mpi import Mpi
from gossip.config import BATCH_NORMS, Averaging, Config, Data, Model, Monitoring, Rate
from tests.fits import fitted, topologies_of
from tests.mpi.reference import on_first, walk
from tests.rates import cases

pytestmark = pytest.mark.mpi

STEPS = 8
SIZE = MPI.COMM_WORLD.size
LOCAL = [1, 2]
"""Learners on each process; (3, 3), (4, 4), (6, 3), (8, 4) of either are among them."""


def learners(local: int) -> int:
    """How many there are; a process alone has some more."""
    return local * SIZE if SIZE > 1 else 4 * local


def config(n: int, name: str, **gossip: object) -> Config:
    return Config(
        algorithm=(name,),
        steps=STEPS,
        gossip=Averaging(learners=n, noise_std=0.05, **gossip),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(12,), dtype="float64"),
        rate=Rate(lr=0.3, momentum=0.9),
        monitoring=Monitoring(monitor="full", monitor_every=5),
    )


def assert_same_walk(chosen: Config, comm: Communicator | None = None) -> None:
    comm = comm or Mpi(chosen.gossip.learners)
    done, expected = walk(chosen, comm), on_first(lambda: walk(chosen, Stacked(comm.n)))
    x = expected.x
    hosted = x if len(x) == 1 else x[comm.hosted.start : comm.hosted.stop]
    torch.testing.assert_close(done.x, hosted, rtol=1e-12, atol=1e-12)
    assert done.kept.keys() == expected.kept.keys()
    for name, kept in done.kept.items():
        own = expected.kept[name][comm.hosted.start : comm.hosted.stop]
        torch.testing.assert_close(kept, own, rtol=1e-10, atol=1e-11)
    assert [row.keys() for row in done.rows] == [row.keys() for row in expected.rows]
    for row, other in zip(done.rows, expected.rows, strict=True):
        for column in list(row):
            # Wall time; and of learners with rates of their own, process 0 tells the first's.
            own = column.startswith(("lr/", "layer_ratio/")) and comm.process
            if column == "seconds" or own:
                del row[column], other[column]
        # Infinite where learners are alike, and no more than huge where they are so to rounding.
        for both in (row, other):
            if "ls_est" in both:
                both["ls_est"] = 1 / both["ls_est"] if both["ls_est"] else np.inf
        np.testing.assert_allclose(
            list(row.values()), list(other.values()), rtol=1e-9, atol=1e-12, equal_nan=True
        )
    assert done.bytes_sent_per_learner == pytest.approx(expected.bytes_sent_per_learner)


INJECTED = ("gaussian", "isotropic", "shuffled", "twin")
CASES = [
    ("dpsgd", {"topology": "ring"}),
    ("dpsgd", {"topology": "complete"}),
    ("dpsgd", {"topology": "exponential"}),
    ("dpsgd", {"topology": "base"}),
    ("dpsgd", {"topology": "pull"}),
    ("dpsgd", {"topology": "one-peer-exponential", "order": "atc"}),
    ("dpsgd", {"topology": "matching"}),
    ("dpsgd", {"topology": "ring", "mix_every": 3}),
    ("ssgd", {}),
    *(("ssgd-star", {"noise_mode": mode}) for mode in NOISE_MODES),
    *(("ssgd-injected", {"algorithm_options": (f"noise={kind}",)}) for kind in INJECTED),
]


WITH_STATE = [name for name in ALGORITHMS if name not in {name for name, _ in CASES}]
"""A new line of the table is among these."""


def test_every_algorithm_and_order_is_walked():
    assert {name for name, _ in CASES} | set(WITH_STATE) == set(ALGORITHMS)
    assert {options.get("order", "awc") for _, options in CASES} == set(ORDERS)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize(
    ("name", "options"),
    CASES,
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_mpi_walks_the_stacked_trajectory(local, name, options):
    assert_same_walk(config(learners(local), name, **options))


@pytest.mark.processes(16)
def test_a_process_for_each_learner_walks_the_stacked_trajectory():
    assert_same_walk(config(SIZE, "dpsgd", topology="ring"))


@pytest.mark.parametrize("name", WITH_STATE)
def test_a_method_with_state_of_its_own_walks_the_stacked_trajectory(name):
    topology = topologies_of(name)[0]
    chosen = config(learners(2), name, topology=topology)
    watched = Monitoring(monitor="cheap", monitor_every=3)
    assert_same_walk(replace(fitted(name, chosen), steps=7, monitoring=watched))


OTHER_WAYS = {
    "mpi-two-nodes": lambda n: Mpi(n, place=MPI.COMM_WORLD.rank % 2),
    "mpi-messages": lambda n: Mpi(n, place=MPI.COMM_WORLD.rank),
    "gloo": Gloo,
    "gloo-two-nodes": lambda n: Gloo(n, place=MPI.COMM_WORLD.rank % 2),
    "gloo-messages": lambda n: Gloo(n, place=MPI.COMM_WORLD.rank),
}


@pytest.mark.parametrize("way", OTHER_WAYS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dpsgd", {"topology": "exponential", "order": "atc"}),
        ("dpsgd", {"topology": "base", "mix_every": 2}),
        ("ssgd", {}),
        ("ssgd-star", {"noise_mode": "persist"}),
        ("push-diging", {"topology": "random-directed"}),
        ("relaysgd", {"topology": "binary-tree"}),
        ("choco-awc", {"topology": "torus"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_every_way_of_a_row_walks_the_stacked_trajectory(way, name, options):
    n = learners(2)
    assert_same_walk(config(n, name, **options), OTHER_WAYS[way](n))


RULES = {
    **cases.RULES,
    "linear-state-aware": {"scaling": "linear", "warmup": "state-aware", "warmup_share": 0.5},
    "quantile": {"layer_ratio": "quantile"},
}


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["ssgd", "dpsgd"])
def test_rates_do_not_depend_on_who_hosts_a_learner(local, name, rule):
    rate = Rate(lr=0.05, momentum=0.9, **RULES[rule])
    watched = Monitoring(monitor="cheap", monitor_every=2)
    assert_same_walk(replace(config(learners(local), name), steps=6, rate=rate, monitoring=watched))


@pytest.mark.parametrize("rule", ["lena", "date"])
@pytest.mark.parametrize("name", ["ssgd", "dpsgd"])
def test_128_learners_on_few_processes(name, rule):
    n = 128 - 128 % MPI.COMM_WORLD.size
    chosen = replace(
        config(n, name),
        steps=4,
        data=Data(dataset="digits", batch_size=4),
        model=Model(model="softmax", dtype="float64"),
        rate=Rate(lr=0.01, momentum=0.9, **RULES[rule]),
        monitoring=Monitoring(monitor="cheap", monitor_every=2),
    )
    assert_same_walk(chosen)


@pytest.mark.parametrize("policy", BATCH_NORMS)
@pytest.mark.parametrize("name", ["ssgd", "dpsgd"])
def test_running_statistics_do_not_depend_on_who_hosts_a_learner(name, policy):
    model = Model(model="tests.problems:batch_norm_net", batch_norm=policy, dtype="float64")
    watched = Monitoring(monitor="cheap", monitor_every=3)
    chosen = replace(config(learners(2), name), steps=7, model=model, monitoring=watched)
    assert_same_walk(replace(chosen, rate=Rate(lr=0.05, scaling="lena")))


def test_the_full_gradient_of_batch_norm_does_not_depend_on_who_hosts_a_learner():
    model = Model(model="tests.problems:batch_norm_net", dtype="float64")
    watched = Monitoring(monitor="standard", monitor_every=3, lipschitz_samples=200)
    chosen = replace(config(learners(2), "dpsgd"), steps=4, model=model, monitoring=watched)
    assert_same_walk(replace(chosen, rate=Rate(lr=0.05)))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "adafactor"])
def test_optimizers_keep_their_state_on_either_backend(optimizer):
    chosen = config(learners(2), "dpsgd")
    rate = Rate(lr=0.01, optimizer=optimizer, weight_decay=0.01)
    assert_same_walk(replace(chosen, rate=rate))


DATA = {
    "dirichlet": ({"partition": "dirichlet"}, {}),
    "replacement": ({"replacement": True}, {}),
    "numbers": ({"dataset": "diabetes", "inputs": "standardised"}, {"loss": "mse"}),
}


@pytest.mark.parametrize("kind", DATA)
def test_batches_do_not_depend_on_who_hosts_a_learner(kind):
    """Labels that are numbers are standardised, and their error 1 - R^2, alike everywhere."""
    (data, model), chosen = DATA[kind], config(learners(2), "dpsgd")
    data, model = replace(chosen.data, concentration=5.0, **data), replace(chosen.model, **model)
    # At 0.3 it diverges, and multiplies rounding from step to step.
    rate = replace(chosen.rate, lr=0.03) if kind == "numbers" else chosen.rate
    assert_same_walk(replace(chosen, data=data, model=model, rate=rate))
