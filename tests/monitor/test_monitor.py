"""The monitor as a whole: columns, processes, purity, and what it does with the unusual."""

from dataclasses import fields, replace
from math import isnan

import numpy as np
import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.monitor import LEVELS, MEANINGS, SOURCES, Monitor, columns, share_of
from gossip.monitor.sources import Probe
from tests.monitor.monitor_cases import (
    ADAM,
    SGD,
    Quadratic,
    digits_task,
    moments,
    on_processes,
)
from tests.problems import ring
from tests.synchronous import ALGORITHMS


@pytest.fixture(scope="module")
def task():
    return digits_task()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("algorithm", ["dpsgd", "ssgd"])
def test_every_level_and_source_gives_its_columns(task, level, source, algorithm):
    monitor = Monitor(task, level=level, source=source, probe=200, hessian_samples=20)
    values = monitor(moments(task, algorithm, 2, 1)[0], Stacked(2))
    assert tuple(values) == monitor.columns == columns(level)
    assert {type(v) for v in values.values()} == {float}


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_known_of_the_gradient_is_told(task, source):
    moment, comm = moments(task, "dpsgd", 2, 1)[0], Stacked(2)
    told = Monitor(task, source=source, probe=200, seed=3)(moment, comm)
    g = SOURCES[source](task, moment.x.mean(dim=0), Probe(200, 3, moment.step), comm)
    samples = len(task.train) if source == "full" else 200
    assert (told["g_samples"], told["g_is_probe"]) == (samples, source != "full")
    assert told["grad_norm_sampled"] == pytest.approx(float(g.vector.norm()), rel=1e-12)
    assert told["grad_norm"] ** 2 == pytest.approx(g.square, rel=1e-12)
    assert told["loss_mean_model"] == pytest.approx(g.loss, rel=1e-12)


def test_each_level_adds_columns_to_the_one_before():
    cheap, standard, everything = (columns(level) for level in ("cheap", "standard", "full"))
    assert standard[: len(cheap)] == cheap
    assert everything[: len(standard)] == standard
    assert everything == tuple(MEANINGS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_step_is_left_as_it_was(task, algorithm):
    moment = moments(task, algorithm, 3, 2, w=ring(3))[-1]
    tensors = [f.name for f in fields(moment) if isinstance(getattr(moment, f.name), torch.Tensor)]
    before = {name: getattr(moment, name).clone() for name in tensors}
    Monitor(task, level="full", hessian_samples=20)(moment, Stacked(3))
    for name in tensors:
        assert torch.equal(getattr(moment, name), before[name])
        assert not getattr(moment, name).requires_grad


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("processes", [2, 6])
@pytest.mark.parametrize("algorithm", ["dpsgd", "ssgd", "ssgd-star"])
def test_any_number_of_processes_measures_the_same(algorithm, processes, source):
    n, steps = 6, 3
    # Made here: torch's generator and a task's model are not for several threads at a time.
    tasks = [digits_task() for _ in range(processes)]
    start = tasks[0].init(0)

    def measured(comm):
        own = tasks[comm.process]
        monitor = Monitor(own, level="full", source=source, probe=500, hessian_samples=100)
        run = moments(own, algorithm, n, steps, w=ring(n), comm=comm, start=start)
        return [monitor(moment, comm) for moment in run]

    expected = measured(Stacked(n))
    everywhere = on_processes(n, processes, measured)
    assert all(values == everywhere[0] for values in everywhere)
    for got, want in zip(everywhere[0], expected, strict=True):
        assert got == pytest.approx(want, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("algorithm", ["dpsgd", "ssgd", "ssgd-star"])
def test_the_same_step_on_other_processes_is_the_same_to_rounding(task, algorithm):
    """One moment, its rows dealt out: no trajectory between the two to amplify rounding."""
    n, processes = 6, 3
    moment = moments(task, algorithm, n, 3, w=ring(n))[-1]
    tasks = [digits_task() for _ in range(processes)]

    def mine(rows, comm):
        here = slice(comm.hosted.start, comm.hosted.stop)
        return rows[here] if len(rows) == n else rows

    def measured(comm):
        own = {f.name: getattr(moment, f.name) for f in fields(moment)}
        own = {k: mine(v, comm) if torch.is_tensor(v) else v for k, v in own.items()}
        if algorithm == "ssgd":
            batch = own["inputs"], own["labels"]
            own["gradients"] = tasks[comm.process].gradient(own["x"], *batch).values
        monitor = Monitor(tasks[comm.process], level="full", source="probe", probe=501)
        return monitor(type(moment)(**own), comm)

    want = Monitor(task, level="full", source="probe", probe=501)(moment, Stacked(n))
    for got in on_processes(n, processes, measured):
        assert got == pytest.approx(want, rel=1e-12, abs=1e-24)


@pytest.mark.parametrize("make", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_gives_finite_values(task, algorithm, make):
    monitor = Monitor(task, level="full", hessian_samples=50)
    for moment in moments(task, algorithm, 4, 3, w=ring(4), make=make, lr=0.01)[1:]:
        values = monitor(moment, Stacked(4))
        endless = {"ls_est"} if algorithm == "ssgd" else set()
        finite = {name for name, v in values.items() if abs(v) < float("inf")}
        assert set(values) - finite == endless


def test_single_precision_is_measured_in_double(task):
    single = digits_task(dtype=torch.float32)
    moment = moments(single, "dpsgd", 4, 3, w=ring(4))[-1]
    wide = {
        f.name: getattr(moment, f.name).double()
        for f in fields(moment)
        if f.name in ("x", "points", "gradients", "mixed", "x_next", "inputs")
    }
    got = Monitor(single, level="full")(moment, Stacked(4))
    want = Monitor(task, level="full")(replace(moment, **wide), Stacked(4))
    assert got == pytest.approx(want, rel=2e-4)


def test_a_vanishing_gradient_leaves_the_rate_open():
    task = Quadratic()
    moment = moments(task, "dpsgd", 3, 1)[0]
    bottom = task.train.inputs.mean(dim=0).repeat(3, 1)
    still = replace(moment, x=bottom, points=bottom, mixed=bottom, x_next=bottom + 0.1)
    values = Monitor(task, level="full")(still, Stacked(3))
    assert isnan(values["alpha_e"])
    assert values["delta"] == pytest.approx(0.01 * task.d, rel=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("algorithm", ["dpsgd", "ssgd", "ssgd-star"])
def test_a_diverged_run_is_measured_without_an_exception(task, algorithm, source, bad):
    moment = moments(task, algorithm, 3, 1)[0]
    dead = torch.full_like(moment.x, bad)
    points = torch.full_like(moment.points, bad)
    moment = replace(
        moment,
        x=dead,
        points=points,
        mixed=dead,
        x_next=dead,
        gradients=torch.full_like(moment.gradients, bad),
    )
    monitor = Monitor(task, level="full", source=source, probe=100, hessian_samples=20)
    values = monitor(moment, Stacked(3))
    for name in ("alpha_e", "delta", "grad_norm", "delta_s", "displacement_norm"):
        assert isnan(values[name])
    assert monitor.window.seen == []


def test_a_gradient_too_large_to_square_is_no_exception(task):
    moment = moments(task, "dpsgd", 3, 2)[-1]
    huge = replace(moment, gradients=moment.gradients * 1e200, x_next=moment.x * 1e200, lr=1e200)
    Monitor(task, level="full", hessian_samples=20)(huge, Stacked(3))


def test_a_rate_of_zero_has_no_ratio(task):
    moment = moments(task, "dpsgd", 3, 1, lr=0.0)[0]
    values = Monitor(task)(moment, Stacked(3))
    assert values["alpha_e"] == pytest.approx(0, abs=1e-14)
    assert isnan(values["alpha_e_ratio"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "standart"}, "unknown monitor level 'standart': did you mean standard?"),
        ({"source": "half"}, "unknown monitor source 'half'"),
        ({"probe": 1}, "probe=1"),
        ({"hessian_samples": 0}, "hessian_samples=0"),
    ],
)
def test_a_bad_option_is_explained(task, options, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        Monitor(task, **options)


@pytest.mark.parametrize("size", [0, 5, 16, 97])
@pytest.mark.parametrize(("n", "processes"), [(16, 4), (7, 7), (6, 1)])
def test_shares_deal_out_every_sample_once(size, n, processes):
    local = n // processes
    blocks = [range(p * local, (p + 1) * local) for p in range(processes)]
    shares = [share_of(np.arange(size), block, n) for block in blocks]
    np.testing.assert_array_equal(np.concatenate(shares), np.arange(size))
