"""The spread of weights in cases known by formula, and the two places where it is measured."""

from math import inf, sqrt

import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.monitor import GradientWindow, Monitor
from gossip.monitor.smoothness import lr_max, ls_est
from gossip.monitor.spread import consensus_distance, sigma_w2, sigma_w2_coord
from tests.monitor.monitor_cases import F64, Quadratic, digits_task, moments
from tests.problems import complete, ring


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_the_two_variances_differ_by_their_known_factor(n):
    d = 23
    x = torch.randn(n, d, dtype=F64, generator=torch.Generator().manual_seed(0))
    total = float((x - x.mean(dim=0)).square().sum())
    expected = (n - 1) * d / n**2 * sigma_w2_coord(total, n, d)
    assert sigma_w2(total, n) == pytest.approx(expected, rel=1e-14, abs=1e-28)
    assert consensus_distance(total, n) ** 2 == pytest.approx(n * sigma_w2(total, n), rel=1e-14)


def test_deviations_one_step_after_exact_averaging_are_those_of_the_gradients():
    """D4: with W = 11^T/n, delta w_j(t+1) = -alpha (g_j - g_a)."""
    task, n, lr = digits_task(), 4, 0.3
    before, after = moments(task, "dpsgd", n, 2, w=complete(n), lr=lr)
    g = before.gradients
    expected = lr**2 * float((g - g.mean(dim=0)).square().sum()) / n**2
    values = Monitor(task, level="cheap")(after, Stacked(n))
    assert values["sigma_w2"] == pytest.approx(expected, rel=1e-12)
    assert values["sigma_w2_mixed"] < 1e-30


def test_mixing_contracts_the_spread_by_at_least_the_second_eigenvalue():
    task, n = Quadratic(), 8
    second = (1 + sqrt(2)) / 3
    for moment in moments(task, "dpsgd", n, 5, w=ring(n))[1:]:
        values = Monitor(task, level="cheap")(moment, Stacked(n))
        assert 0 < values["sigma_w2_mixed"] <= second**2 * values["sigma_w2"]


def test_the_spread_is_measured_about_the_mean_and_not_about_zero():
    task, n = digits_task(), 3
    moment = moments(task, "dpsgd", n, 3, w=ring(n))[-1]
    values = Monitor(task, level="cheap")(moment, Stacked(n))
    deviations = moment.x - moment.x.mean(dim=0)
    assert values["sigma_w2"] == pytest.approx(float(deviations.square().sum()) / n**2, rel=1e-12)
    distance = sqrt(float(deviations.square().sum()) / n)
    assert values["consensus_distance"] == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("mode", ["ssgd-star", "ssgd-star-centered", "ssgd-star-persist"])
def test_the_noise_of_ssgd_star_is_its_spread_and_its_model_has_none(mode):
    task, n, std = digits_task(), 8, 0.01
    moment = moments(task, mode, n, 1)[0]
    values = Monitor(task, level="cheap")(moment, Stacked(n))
    # Standard deviation of a mean of n d squares about a known centre: sqrt(2 / (n d)).
    assert values["sigma_w2_coord"] / std**2 == pytest.approx(1, abs=5 * sqrt(2 / (n * task.d)))
    assert values["consensus_distance"] == values["sigma_w2_mixed"] == 0


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("mode", ["eval", "persist", "centered"])
def test_a_known_centre_costs_no_degree_of_freedom(mode, n):
    """SSGD*'s noise is drawn about w_a; only `centered` takes its own mean out of it."""
    task = digits_task()
    moment = moments(task, f"ssgd-star{'' if mode == 'eval' else '-' + mode}", n, 1)[0]
    values = Monitor(task)(moment, Stacked(n))
    total = float((moment.points - moment.x).square().sum())
    degrees = max(n - 1, 1) if mode == "centered" else n
    assert values["sigma_w2_coord"] == pytest.approx(total / (degrees * task.d), rel=1e-12)
    if total > 0:
        smoothness = 2 * values["gradient_bound"] / sqrt(total / (degrees * task.d))
        assert values["ls_est"] == pytest.approx(smoothness, rel=1e-12)
        assert values["lr_max"] == pytest.approx(1 / smoothness, rel=1e-12)


def test_no_spread_means_no_smoothing():
    assert ls_est(2.0, 0.0) == inf
    assert lr_max(2.0, 0.0) == 0.0
    assert ls_est(2.0, 0.25) == 8.0
    assert lr_max(2.0, 0.25) == 1 / 8
    assert lr_max(0.0, 0.25) == inf


def test_the_window_forgets_and_does_not_remember_what_is_not_finite():
    window = GradientWindow(length=10)
    assert [window.update(t, v) for t, v in [(0, 5.0), (5, 1.0), (9, 2.0)]] == [5.0, 5.0, 5.0]
    assert window.update(10, 1.5) == 2.0
    assert window.update(12, inf) == inf
    assert window.update(12, 1.0) == 2.0
    assert window.update(12, 1.0) == 2.0
    assert window.seen == [(5, 1.0), (9, 2.0), (10, 1.5), (12, 1.0)]


def test_the_bound_is_the_largest_gradient_of_any_learner():
    task, n = digits_task(), 4
    moment = moments(task, "dpsgd", n, 2)[-1]
    values = Monitor(task)(moment, Stacked(n))
    largest = max(float(moment.gradients.norm(dim=1).max()), values["grad_norm"])
    assert values["gradient_bound"] == pytest.approx(largest, rel=1e-14)
    expected = 2 * largest / sqrt(values["sigma_w2_coord"])
    assert values["ls_est"] == pytest.approx(expected, rel=1e-12)
    assert values["lr_max"] == pytest.approx(1 / expected, rel=1e-12)
