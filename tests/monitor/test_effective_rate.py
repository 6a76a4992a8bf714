"""The effective rate by its definition, and what it must say in cases known by hand."""

from math import isnan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gossip.comm.stacked import Stacked
from gossip.monitor import Monitor
from gossip.monitor.effective_rate import (
    MeanModelGradient,
    alpha_e,
    alpha_e_sgd,
    delta,
    perpendicular_product,
)
from tests.monitor.monitor_cases import (
    ADAM,
    F64,
    MOMENTUM,
    SGD,
    digits_task,
    exact,
    moments,
    vectors,
)
from tests.problems import ring


@given(vectors(2))
def test_what_is_left_over_is_orthogonal_to_the_gradient(pair):
    step, g = pair
    left = step + alpha_e(step, exact(g)) * g
    assert abs(float(left @ g)) <= 1e-12 * float(step.norm() * g.norm())


@given(vectors(2), st.floats(1e-6, 1e6))
def test_pythagoras_splits_the_step(pair, scale):
    step, g = pair[0] * scale, exact(pair[1])
    whole = alpha_e(step, g) ** 2 * g.square + delta(step, g)
    assert whole == pytest.approx(float(step @ step), rel=1e-12)


@given(vectors(3))
def test_perpendicular_product_is_bilinear_for_an_estimated_gradient(triple):
    u, v, vector = triple
    square = 0.7 * float(vector @ vector)
    g = MeanModelGradient(vector, square, float(vector @ vector) - square, 0.0, 9)
    expected = float(u @ v - (u @ vector) * (v @ vector) / square)
    assert perpendicular_product(u, v, g) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_a_step_along_the_gradient_has_the_nominal_rate_and_leaves_nothing():
    g = torch.tensor([3.0, -4.0, 0.0], dtype=F64)
    step = -0.25 * g
    assert alpha_e(step, exact(g)) == pytest.approx(0.25, rel=1e-15)
    assert delta(step, exact(g)) == pytest.approx(0.0, abs=1e-30)


def test_a_step_uphill_has_a_negative_rate():
    g = torch.tensor([1.0, 2.0], dtype=F64)
    assert alpha_e(g, exact(g)) == -1.0


def test_a_vanishing_gradient_has_no_rate_and_takes_nothing_out_of_the_step():
    step = torch.tensor([3.0, 4.0], dtype=F64)
    g = exact(torch.full((2,), 1e-16, dtype=F64))
    assert isnan(alpha_e(step, g))
    assert isnan(alpha_e_sgd(0.1, step, g))
    assert delta(step, g) == 25.0


def test_an_estimate_lost_in_noise_gives_no_number():
    step = torch.tensor([3.0, 4.0], dtype=F64)
    g = MeanModelGradient(step, -1.0, 26.0, 0.0, 10)
    assert isnan(alpha_e(step, g))
    assert isnan(delta(step, g))


@pytest.mark.parametrize("algorithm", ["dpsgd", "dpsgd-atc", "ssgd", "ssgd-star"])
def test_displacement_and_paper_forms_agree_for_sgd(algorithm):
    """Follows from w_a(t+1) = w_a(t) - alpha g_a on any topology."""
    task, n = digits_task(), 4
    monitor = Monitor(task)
    for moment in moments(task, algorithm, n, 4, w=ring(n)):
        values = monitor(moment, Stacked(n))
        assert values["alpha_e"] == pytest.approx(values["alpha_e_sgd"], rel=1e-11)
        assert values["delta"] == pytest.approx(values["delta_sgd"], rel=1e-11)
        step = moment.lr * values["grad_a_norm"]
        assert values["displacement_norm"] == pytest.approx(step, rel=1e-12)
        along = values["alpha_e"] * values["grad_norm"]
        assert along**2 + values["delta"] == pytest.approx(step**2, rel=1e-12)


@pytest.mark.parametrize("make", [SGD, MOMENTUM, ADAM], ids=["sgd", "momentum", "adam"])
def test_pythagoras_holds_for_any_optimizer(make):
    task, n = digits_task(), 3
    monitor = Monitor(task)
    for moment in moments(task, "dpsgd", n, 4, make=make, lr=0.01):
        values = monitor(moment, Stacked(n))
        along = values["alpha_e"] * values["grad_norm"]
        whole = values["displacement_norm"] ** 2
        assert along**2 + values["delta"] == pytest.approx(whole, rel=1e-12)


def test_the_rate_of_adam_is_not_that_of_sgd():
    task, n = digits_task(), 3
    values = Monitor(task)(moments(task, "dpsgd", n, 1, make=ADAM, lr=0.01)[0], Stacked(n))
    assert values["alpha_e"] > 2 * values["alpha_e_sgd"] > 0
