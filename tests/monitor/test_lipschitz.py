"""Curvature along the gradient: quadratics, any split over learners, any model."""

from functools import partial
from math import inf, isnan, nan

import numpy as np
import pytest
import torch
from torch import nn

from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.models import lenet, lstm, word_lstm
from gossip.monitor import LEVELS, LIPSCHITZ, Monitor
from gossip.monitor.lipschitz import largest_step, lipschitz, probe_of
from gossip.task import Task
from tests.monitor.monitor_cases import F64, Quadratic, digits_task, moments, on_processes
from tests.problems import ArraySamples, digits

ALL = 10_000
ONE = Stacked(1)


def center(task):
    """Where the gradient of a `Quadratic` vanishes."""
    return task.train.inputs.mean(dim=0)


@pytest.mark.parametrize("seed", range(5))
def test_it_lies_between_the_least_and_the_largest_eigenvalue(seed):
    task = Quadratic(seed=seed)
    eigenvalues = torch.linalg.eigvalsh(task.hessian)
    values = lipschitz(task, task.init(seed), ALL, ONE)
    assert eigenvalues[0] <= values["lipschitz"] <= eigenvalues[-1]
    assert values["lipschitz_step"] == 1 / values["lipschitz"]


@pytest.mark.parametrize("k", [0, 3, 5])
def test_it_is_the_eigenvalue_where_the_gradient_is_an_eigenvector(k):
    task = Quadratic()
    eigenvalues, vectors = torch.linalg.eigh(task.hessian)
    values = lipschitz(task, center(task) + 0.7 * vectors[:, k], ALL, ONE)
    assert values["lipschitz"] == pytest.approx(float(eigenvalues[k]), rel=1e-9)


def test_descent_with_its_step_is_exact_line_search():
    """After such a step the new gradient is orthogonal to the old one, and the loss is least."""
    task = Quadratic()
    x, everything = task.init(1), np.arange(len(task.train))
    for _ in range(5):
        g = task.gradient_sum(x, task.train, everything)[0] / len(task.train)
        size = lipschitz(task, x, ALL, ONE)["lipschitz_step"]
        there = task.gradient_sum(x - size * g, task.train, everything)[0]
        assert float(g @ there) == pytest.approx(0, abs=1e-9 * float(g @ g))
        losses = [task.gradient_sum(x - s * size * g, task.train, everything)[1] for s in (1, 0.9)]
        assert losses[0] < losses[1]
        x = x - size * g


def test_no_gradient_no_curvature_along_it():
    task = Quadratic()
    task.train = ArraySamples(torch.zeros(8, task.d, dtype=F64), torch.zeros(8, dtype=torch.int64))
    values = lipschitz(task, torch.zeros(task.d, dtype=F64), ALL, ONE)
    assert isnan(values["lipschitz"])
    assert isnan(values["lipschitz_step"])


@pytest.mark.parametrize(
    ("value", "expected"), [(4.0, 0.25), (-4.0, inf), (0.0, inf), (1e-13, inf), (-1e-13, inf)]
)
def test_the_step_is_infinite_where_the_loss_does_not_curve_up(value, expected):
    assert largest_step(value) == expected
    assert isnan(largest_step(nan))


def test_a_loss_that_curves_down_is_told():
    task = Quadratic()
    task.hessian = -task.hessian
    values = lipschitz(task, task.init(0), ALL, ONE)
    assert values["lipschitz"] < 0
    assert values["lipschitz_step"] == inf


@pytest.mark.parametrize("samples", [5, 300, ALL])
def test_it_is_the_same_however_many_learners_share_the_work(samples):
    tasks = [digits_task("tanh") for _ in range(8)]  # a model is not for several threads at a time
    w_a = tasks[0].init(0)

    def measured(comm):
        return lipschitz(tasks[comm.process], w_a, samples, comm)

    alone = measured(ONE)
    assert measured(Stacked(16)) == pytest.approx(alone, rel=1e-10)
    for processes in (2, 8):
        for values in on_processes(8, processes, measured):
            assert values == pytest.approx(alone, rel=1e-10)


def test_it_depends_on_weights_and_samples_alone():
    """Not on batch size, seed, step, level or the number of learners."""
    task = digits_task("tanh", widths=(5,))
    seen = []
    for batch, seed, level, n in [(4, 0, "cheap", 2), (12, 9, "standard", 4), (6, 3, "full", 4)]:
        moment = moments(task, "ssgd", n, 1, batch=batch)[0]
        monitor = Monitor(task, level=level, seed=seed, lipschitz_samples=100)
        seen.append(monitor(moment, Stacked(n))["lipschitz"])
    assert seen == pytest.approx([seen[0]] * 3, rel=1e-10)


@pytest.mark.parametrize(("total", "samples"), [(10, 3), (10, 10), (10, 99), (60_000, 1024)])
def test_the_probe_is_spread_evenly_without_repeats(total, samples):
    probe = probe_of(total, samples)
    assert len(np.unique(probe)) == len(probe) == min(total, samples)
    assert probe.min() == 0
    assert probe.max() < total
    gaps = np.diff(probe)
    assert gaps.max() - gaps.min() <= 1


def words():
    """20 windows of 6 tokens out of 11, the next tokens being the labels."""
    tokens = torch.from_numpy(np.random.default_rng(0).integers(11, size=(20, 7)))
    return ArraySamples(tokens[:, :-1], tokens[:, 1:])


MODELS = {
    "lstm": (partial(lstm, (8, 8), 10, hidden=12), digits),
    "word-lstm": (partial(word_lstm, (6,), 11, width=8), lambda dtype=F64: words()),
    "tanh": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 10)),
        digits,
    ),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_second_difference_of_a_smooth_loss(name, dtype):
    """The LSTM's kernel has a second derivative on the CPU, in both precisions."""
    build, load = MODELS[name]
    data = load(dtype)
    task, exact = (Task(build, load(t), load(t), dtype=t) for t in (dtype, F64))
    w_a, everything = exact.init(0), np.arange(min(len(data), 200))
    exact.train = ArraySamples(exact.train.inputs[everything], exact.train.labels[everything])
    task.train = ArraySamples(data.inputs[everything], data.labels[everything])
    for _ in range(20):
        w_a = w_a - 0.5 * exact.gradient_sum(w_a, exact.train, everything)[0] / len(everything)
    g = exact.gradient_sum(w_a, exact.train, everything)[0]
    eps = 1e-4 * g / g.norm()
    there, _ = exact.gradient_sum(w_a + eps, exact.train, everything)
    back, _ = exact.gradient_sum(w_a - eps, exact.train, everything)
    difference = float((there - back) @ eps / (2 * eps @ eps)) / len(everything)
    tolerance = 1e-6 if dtype == F64 else 1e-3
    value = lipschitz(task, w_a, ALL, ONE)["lipschitz"]
    assert value == pytest.approx(difference, rel=tolerance)


def test_a_convolution_has_one_too():
    data = digits()
    task = Task(partial(lenet, (8, 8), 10), data, data, dtype=F64)
    assert np.isfinite(lipschitz(task, task.init(0), 50, ONE)["lipschitz"])


@pytest.mark.parametrize("level", LEVELS)
def test_its_columns_are_there_only_if_it_is_measured(level):
    task = Quadratic()
    moment = moments(task, "dpsgd", 4, 1)[0]
    without = Monitor(task, level=level)
    assert without.columns == LEVELS[level]
    assert list(without(moment, Stacked(4))) == list(LEVELS[level])
    measured = Monitor(task, level=level, lipschitz_samples=8)
    assert measured.columns == (*LEVELS[level], *LIPSCHITZ)
    assert list(measured(moment, Stacked(4))) == list(measured.columns)


def test_a_negative_number_of_samples_is_refused():
    with pytest.raises(UserError, match="lipschitz_samples=-1: give at least 1, or 0 for none"):
        Monitor(Quadratic(), lipschitz_samples=-1)
