"""Where g comes from: exactness, and the bias of estimates by Monte Carlo."""

from math import sqrt

import numpy as np
import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.monitor import SOURCES
from gossip.monitor.sources import Probe, full, sampled, split_half
from tests.monitor.monitor_cases import Quadratic, digits_task

DRAWS = 200


@pytest.fixture(scope="module")
def task():
    """Samples scattered far beyond the gradient at `point`: the late phase of training."""
    return Quadratic(d=20, samples=3_000)


@pytest.fixture(scope="module")
def point(task):
    return task.train.inputs.mean(dim=0) + 0.02


@pytest.fixture(scope="module")
def truth(task, point):
    return full(task, point, Probe(2, 0, 0), Stacked(4))


def estimates(source, task, point, m, n=4):
    return [source(task, point, Probe(m, 0, t), Stacked(n)) for t in range(DRAWS)]


def within(values, expected, errors=5):
    values = np.array(values)
    return abs(values.mean() - expected) < errors * values.std() / sqrt(len(values))


def test_the_full_gradient_is_that_of_the_mean_loss():
    task = digits_task()
    row = task.init(0)
    g = full(task, row, Probe(2, 0, 0), Stacked(3))
    inputs, labels = task.train.batch(np.arange(len(task.train)))
    whole = inputs.unsqueeze(0), labels.unsqueeze(0)
    expected, loss, _ = task.gradient(row.unsqueeze(0), *whole)
    torch.testing.assert_close(g.vector, expected[0], rtol=1e-12, atol=1e-14)
    assert g.loss == pytest.approx(float(loss[0]), rel=1e-12)
    assert (g.excess, g.samples) == (0.0, len(task.train))
    assert g.square == float(g.vector @ g.vector)


@pytest.mark.parametrize("n", [1, 4, 16])
def test_a_probe_of_everything_is_exact(task, point, truth, n):
    g = sampled(task, point, Probe(10**6, 0, 0), Stacked(n))
    torch.testing.assert_close(g.vector, truth.vector, rtol=1e-12, atol=1e-14)
    assert g.excess == 0
    assert g.square == pytest.approx(truth.square, rel=1e-12)


def test_the_plain_square_of_a_probe_is_too_large_by_the_known_amount(task, point, truth):
    """E||g^||^2 = ||g||^2 + (1 - m/N) tr Sigma / m, Sigma the covariance of a sample's gradient."""
    m, total = 300, len(task.train)
    gradients = (point - task.train.inputs) @ task.hessian
    trace = float((gradients - gradients.mean(dim=0)).square().sum()) / (total - 1)
    expected = truth.square + (1 - m / total) * trace / m
    assert expected > 2 * truth.square
    assert within(
        [float(g.vector @ g.vector) for g in estimates(sampled, task, point, m)], expected
    )


@pytest.mark.parametrize("n", [1, 3, 16])
def test_the_corrected_square_of_a_probe_is_unbiased(task, point, truth, n):
    found = estimates(sampled, task, point, 301, n)
    assert within([g.square for g in found], truth.square)
    assert within([g.loss for g in found], truth.loss)


def test_the_halves_of_a_probe_are_nearly_unbiased(task, point, truth):
    """Two halves without replacement are correlated by -tr Sigma / N, next to nothing."""
    found = estimates(split_half, task, point, 301)
    gradients = (point - task.train.inputs) @ task.hessian
    trace = float((gradients - gradients.mean(dim=0)).square().sum()) / (len(task.train) - 1)
    assert within([g.square for g in found], truth.square - trace / len(task.train))
    assert {g.samples for g in found} == {300}
    for g in found[:20]:
        plain = float(g.vector @ g.vector)
        assert g.square + g.excess == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("source", ["probe", "split-half"])
def test_an_uncorrected_probe_puts_the_rate_too_low_and_the_corrected_ones_do_not(task, source):
    """The step is exactly -alpha g, so that alpha_e / alpha = 1; medians, as ratios have tails."""
    point = task.train.inputs.mean(dim=0) + 0.1
    step = full(task, point, Probe(2, 0, 0), Stacked(4)).vector
    found = estimates(SOURCES[source], task, point, 300)
    uncorrected = [float(step @ g.vector) / float(g.vector @ g.vector) for g in found]
    assert np.median(uncorrected) < 0.9
    assert np.nanmedian([g.component_of(step) for g in found]) == pytest.approx(1, abs=0.1)


def test_each_step_has_a_probe_of_its_own():
    first, second = Probe(50, 0, 0).indices(200), Probe(50, 0, 1).indices(200)
    assert len(set(first)) == 50
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, Probe(50, 1, 0).indices(200))
    assert not np.array_equal(first, Probe(50, 0, 0, 1).indices(200))
    np.testing.assert_array_equal(first, Probe(50, 0, 0).indices(200))
