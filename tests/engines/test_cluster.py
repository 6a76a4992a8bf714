"""A Dask cluster of real processes computes what one process does, and survives kill -9.

All in one module, with one cluster: starting its workers is what these tests cost.
"""

import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

distributed = pytest.importorskip("distributed")

from gossip.damping import PadaDamp  # noqa: E402
from gossip.engines import ArraySamples, Here, Items, MicroBatch, Problem, as_engine, parts  # noqa: E402
from gossip.engines.cluster import Cluster  # noqa: E402
from gossip.errors import UserError  # noqa: E402
from gossip.estimators import DampedRegressor  # noqa: E402
from tests import nursery  # noqa: E402
from tests.engines.modules import SECONDS, Broken, Mortal, Slow, Tired  # noqa: E402
from tests.stand_in import SPAWNED  # noqa: E402

N, FEATURES = 48, 3


@pytest.fixture(scope="module")
def address():
    """Two worker processes; clients that are connected to an address scale nothing."""
    with (
        nursery.forking(SPAWNED),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture
def client(address):
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def threads():
    """A cluster inside this process, whose workers cost nothing to start."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(N, FEATURES)), random.normal(size=N)


def problem(module: nn.Module) -> Problem:
    inputs, targets = data()
    return Problem(module.double(), nn.MSELoss(), ArraySamples(inputs, targets[:, None]))


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_update(client, workers):
    given = problem(nn.Sequential(nn.Linear(FEATURES, 4), nn.Dropout(0.5), nn.Linear(4, 1)))
    batch = [MicroBatch(part, seed) for seed, part in enumerate(parts(np.arange(N), 7))]
    here, there = Here(), Cluster(client)
    for engine in (here, there):
        engine.hold(given)
    there.scale(workers)
    expected = here.gradient(state(given.module), batch)
    found = there.gradient(state(given.module), batch)
    assert there.workers == workers
    assert found.samples == N
    for name, value in expected.gradient.items():
        assert torch.allclose(found.gradient[name], value, rtol=0, atol=1e-12)
    assert found.loss == pytest.approx(expected.loss, rel=1e-13)
    there.close()


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_an_update_costs_time_and_nothing_else(client, tmp_path):
    inputs, targets = data()

    def trained(engine):
        return DampedRegressor(
            Mortal,
            module__features=FEATURES,
            module__mark=str(tmp_path / "mark"),
            module__dropout=0.25,
            batch_size=PadaDamp,
            batch_size__initial=8,
            batch_size__rate=1.0,
            grads_per_worker=6,
            max_epochs=2,
            engine=engine,
            random_state=0,
        ).fit(inputs, targets)

    undisturbed = trained("here")
    (tmp_path / "mark").touch()
    killed = trained(client)
    assert (tmp_path / "mark.gone").exists()
    assert killed.meta_["n_updates"] == undisturbed.meta_["n_updates"]
    expected = undisturbed.module_.state_dict()
    for name, value in killed.module_.state_dict().items():
        assert torch.allclose(value.double(), expected[name].double(), rtol=0, atol=1e-12), name
    client.wait_for_workers(2)


@pytest.mark.slow
def test_weights_that_are_frozen_or_thawed_on_the_way_are_so_on_the_workers(client):
    given = problem(nn.Sequential(nn.Linear(FEATURES, 4), nn.Linear(4, 1)))
    there = Cluster(client)
    there.hold(given)
    batch = [MicroBatch(np.arange(N))]
    for frozen in (False, True, False):
        given.module[0].requires_grad_(not frozen)
        found = there.gradient(state(given.module), batch)
        assert set(found.gradient) == {
            name for name, p in given.module.named_parameters() if p.requires_grad
        }
    there.close()


@pytest.mark.slow
def test_a_slow_worker_is_waited_for_and_changes_nothing(client, tmp_path):
    given = problem(Tired(FEATURES, str(tmp_path / "mark")))
    batch = [MicroBatch(part) for part in parts(np.arange(N), 12)]
    here, there = Here(), Cluster(client)
    here.hold(given)
    expected = here.gradient(state(given.module), batch)
    there.hold(given)
    there.scale(2)
    (tmp_path / "mark").touch()
    start = time.monotonic()
    found = there.gradient(state(given.module), batch)
    assert time.monotonic() - start > SECONDS
    for name, value in expected.gradient.items():
        assert torch.allclose(found.gradient[name], value, rtol=0, atol=1e-12)
    there.close()


@pytest.mark.slow
def test_the_tasks_have_names_that_say_what_they_do(client):
    engine = Cluster(client)
    engine.hold(problem(nn.Linear(FEATURES, 1)))
    engine.scale(2)
    engine.gradient(
        state(engine._problem.module), [MicroBatch(np.arange(8)), MicroBatch(np.arange(8, 16))]
    )
    engine.close()

    def names(dask_scheduler):
        return sorted(dask_scheduler.task_prefixes)

    assert {"gradient", "sum", "weights", "problem"} <= set(client.run_on_scheduler(names))


@pytest.mark.slow
def test_the_data_travel_once_however_the_batch_grows(threads, monkeypatch):
    sent, scatter = [], threads.scatter

    def counted(things, **options):
        [(key, thing)] = things.items()
        sent.append((key.split("-")[0], thing, options.get("broadcast", False)))
        return scatter(things, **options)

    monkeypatch.setattr(threads, "scatter", counted)
    inputs, targets = data()
    damped = DampedRegressor(
        nn.Linear,
        module__in_features=FEATURES,
        module__out_features=1,
        batch_size=PadaDamp,
        batch_size__initial=4,
        batch_size__rate=1.0,
        grads_per_worker=2,
        max_epochs=3,
        engine=threads,
        random_state=0,
    ).fit(inputs, targets)
    batches = [row["batch_size"] for epoch in damped.history for row in epoch["batches"]]
    first, *others = sent
    assert batches[-1] > batches[0]
    assert first[0] == "problem"
    assert first[2], "every worker has the data from the beginning"
    assert len(others) == len(batches)
    assert {name for name, _, _ in others} == {"weights"}
    assert {sum(value.size for value in weights.values()) for _, weights, _ in others} == {
        FEATURES + 1
    }


def test_what_the_users_module_raises_is_raised(client):
    engine = Cluster(client)
    engine.hold(problem(Broken(FEATURES, 1)))
    with pytest.raises(ZeroDivisionError, match="in the user's module"):
        engine.gradient(state(engine._problem.module), [MicroBatch(np.arange(4))])


def test_workers_are_asked_for_and_given_back(threads):
    engine = Cluster(threads)
    engine.hold(problem(nn.Linear(FEATURES, 1)))
    weights = state(engine._problem.module)
    batch = [MicroBatch(part) for part in parts(np.arange(N), 12)]
    alone = engine.gradient(weights, batch)
    assert engine.workers == 1
    engine.scale(2)
    while engine.workers < 2:  # nobody waits for a worker that has been asked for
        grown = engine.gradient(weights, batch)
    for name, value in alone.gradient.items():
        assert torch.allclose(grown.gradient[name], value, rtol=0, atol=1e-12)
    engine.close(keep_workers=True)
    assert len(threads.cluster.worker_spec) == 2
    engine = Cluster(threads)  # of the next call
    engine.hold(problem(nn.Linear(FEATURES, 1)))
    assert len(threads.cluster.worker_spec) == 2
    engine.close()
    assert len(threads.cluster.worker_spec) == 1


class OnItsWay:
    """A result that is computed after a first look, and takes 100 s to come here."""

    def __init__(self, result):
        self.value, self.status = result, "pending"

    def done(self):
        return self.status == "finished"

    def result(self, timeout):
        if self.done() and timeout > 100:
            return self.value
        self.status = "finished"
        raise distributed.TimeoutError(f"timed out after {timeout} s.")


def test_a_result_that_is_long_on_its_way_is_no_lost_worker(threads):
    result = object()
    assert Cluster(threads)._awaited(OnItsWay(result)) is result


def test_a_worker_lost_while_the_data_are_sent_again_is_one_more_attempt(threads, monkeypatch):
    engine = Cluster(threads)
    engine.hold(problem(nn.Linear(FEATURES, 1)))
    lost = distributed.comm.core.CommClosedError("gone")
    failures = {"_computed": [lost], "_send_problem": [lost, lost]}

    def failing(name):
        call = getattr(engine, name)

        def tried(*arguments):
            if failures[name]:
                raise failures[name].pop()
            return call(*arguments)

        monkeypatch.setattr(engine, name, tried)

    for name in failures:
        failing(name)
    batch = [MicroBatch(np.arange(N))]
    assert engine.gradient(state(engine._problem.module), batch).samples == N
    assert failures == {"_computed": [], "_send_problem": []}
    engine.close()


def test_data_that_time_out_are_no_lost_worker(threads):
    given = replace(problem(nn.Linear(FEATURES, 1)), samples=Items(Slow()))
    engine = Cluster(threads)
    engine.hold(given)
    with pytest.raises(UserError, match=r"timed out on a worker .*the server of the data"):
        engine.gradient(state(given.module), [MicroBatch(np.arange(4))])


def test_dask_is_the_current_client_and_else_a_cluster_of_processes_here(threads, monkeypatch):
    with threads.as_current():
        assert as_engine("dask")._client is threads
    asked, start = {}, distributed.LocalCluster

    def without_processes(**options):
        asked.update(options)
        return start(**options | {"processes": False})

    monkeypatch.setattr(distributed, "LocalCluster", without_processes)
    net = {"batch_size": 12, "max_epochs": 1, "random_state": 0}
    there = DampedRegressor(engine="dask", **net).fit(*data())
    client = distributed.default_client()
    cluster = client.cluster
    try:
        assert asked["processes"] is True
        assert there.n_workers_ == 1
        here = DampedRegressor(**net).fit(*data())
        for mine, other in zip(there.module_.parameters(), here.module_.parameters(), strict=True):
            assert torch.equal(mine, other)
    finally:
        client.close()
        cluster.close()


def test_a_client_that_is_closed_is_refused(threads):
    client = distributed.Client(threads.cluster.scheduler_address, set_as_default=False)
    client.close()
    with pytest.raises(UserError, match=r"the Dask Client is closed.*make a new Client"):
        as_engine(client)
    with pytest.raises(UserError, match="the Dask Client is closed"):
        DampedRegressor(engine=client).fit(*data())


def test_a_client_whose_scheduler_is_gone_is_refused():
    cluster = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
    client = distributed.Client(cluster.scheduler_address, set_as_default=False, timeout=1)
    cluster.close()
    try:
        while client.status == "running":
            time.sleep(0.01)
        with pytest.raises(UserError, match=r"scheduler cannot be reached: make a new Client"):
            DampedRegressor(engine=client).fit(*data())
    finally:
        client.close(timeout=1)


def test_a_module_that_cannot_be_pickled_is_refused(threads):
    module = nn.Linear(FEATURES, 1)
    module.lock = threading.Lock()
    with pytest.raises(UserError, match=r"the module Linear cannot be pickled.*engine='here'"):
        Cluster(threads).hold(problem(module))


def test_a_cluster_without_workers_is_refused_after_a_while():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster.scheduler_address, set_as_default=False) as client,
        pytest.raises(UserError, match=r"no worker for 0\.2 s: start one"),
    ):
        Cluster(client, patience=0.2).hold(problem(nn.Linear(FEATURES, 1)))


@pytest.mark.parametrize("engine", ["dusk", None, 4])
def test_engines_that_do_not_exist_are_refused(engine):
    with pytest.raises(UserError, match="dask"):
        as_engine(engine)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"distributed cannot be imported.*gossip-sgd\[dask\]"):
        as_engine("dask")
