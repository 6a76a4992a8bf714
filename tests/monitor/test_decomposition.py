"""What Delta is made of: both of its parts and the cross term."""

import pytest
import torch
from hypothesis import given

from gossip.comm.stacked import Stacked
from gossip.monitor import SOURCES, Monitor
from gossip.monitor.decomposition import noise_split
from gossip.monitor.effective_rate import delta
from tests.monitor.monitor_cases import (
    F64,
    Quadratic,
    batches,
    digits_task,
    exact,
    moments,
    vectors,
)
from tests.problems import ring
from tests.synchronous import ALGORITHMS


@given(vectors(3))
def test_delta_is_the_sum_of_its_exact_parts(triple):
    g_a, g_s, g = triple
    parts = noise_split(0.3, g_a, g_s, exact(g))
    whole = parts["delta_s"] + parts["delta_cross"] + parts["delta2_perp"]
    assert whole == pytest.approx(delta(0.3 * g_a, exact(g)), rel=1e-12)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_split_is_exact_in_training_with_every_source_of_g(algorithm, source):
    task, n = digits_task(), 4
    monitor = Monitor(task, level="full", source=source, probe=1_000, hessian_samples=50)
    for moment in moments(task, algorithm, n, 3, w=ring(n)):
        v = monitor(moment, Stacked(n))
        whole = v["delta_s"] + v["delta_cross"] + v["delta2_perp"]
        assert whole == pytest.approx(v["delta_sgd"], rel=1e-11)
        assert v["delta2_diff"] == pytest.approx(v["delta_sgd"] - v["delta_s"], abs=1e-13)
        assert v["delta2_perp"] <= v["delta2"] * (1 + 1e-12) or source != "full"


def test_the_papers_delta2_is_the_squared_distance_of_the_mean_gradients():
    g_a, g_s, g = torch.eye(3, dtype=F64)
    assert noise_split(0.5, g_a, g_s, exact(g))["delta2"] == pytest.approx(0.25 * 2)


@pytest.mark.parametrize("n", [1, 4])
def test_ssgd_has_no_spread_and_no_second_part_at_all(n):
    task = digits_task()
    monitor = Monitor(task, level="full")
    for moment in moments(task, "ssgd", n, 3):
        v = monitor(moment, Stacked(n))
        zero = ("sigma_w2", "sigma_w2_mixed", "sigma_w2_coord", "consensus_distance", "delta2")
        zero += ("delta2_perp", "delta_cross", "delta2_diff")
        zero += ("delta2_hessian", "delta2_hessian_minibatch", "lr_max")
        assert {name: v[name] for name in zero} == dict.fromkeys(zero, 0.0)
        assert v["alpha_e_s"] == v["alpha_e_sgd"]
        assert v["delta_s"] == pytest.approx(v["delta_sgd"], rel=1e-13)


def test_ssgd_moves_at_the_nominal_rate_on_average():
    """E[g_a] = g, so E[alpha_e] = alpha: the mean over 200 draws, within five standard errors."""
    task, n, lr = digits_task(), 4, 0.3
    monitor = Monitor(task)
    x = task.init(0).unsqueeze(0)
    first = moments(task, "ssgd", n, 1, lr=lr)[0]
    ratios = []
    for t in range(200):
        inputs, labels = batches(task, n, t)
        gradients = task.gradient(x, inputs, labels).values
        moment = type(first)(
            0, lr, x, x, gradients, x, x - lr * gradients, inputs, labels, shared=True
        )
        ratios.append(monitor(moment, Stacked(n))["alpha_e_ratio"])
    ratios = torch.tensor(ratios)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / len(ratios) ** 0.5
    assert ratios.std() > 0.01


def test_a_common_quadratic_has_no_second_part_but_the_paper_form_says_it_has():
    """The deviations sum to 0 and so do their products with one Hessian; Eq. 5 drops that."""
    task, n, lr = Quadratic(), 5, 0.2
    monitor = Monitor(task, level="full", hessian_samples=None)
    moment = moments(task, "dpsgd", n, 4, w=ring(n), lr=lr)[-1]
    v = monitor(moment, Stacked(n))
    deviations = moment.x - moment.x.mean(dim=0)
    expected = lr**2 / n**2 * float((deviations @ task.hessian).square().sum())
    assert v["delta2_hessian"] == pytest.approx(expected, rel=1e-12)
    assert v["delta2_hessian"] > 1e-4
    assert v["delta2"] < 1e-28
    assert v["delta2_hessian_minibatch"] < 1e-28
