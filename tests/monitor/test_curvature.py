"""Hessian-vector products, and the two Hessian forms against a dense Hessian."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from gossip.comm.stacked import Stacked
from gossip.monitor import Monitor
from gossip.task import Task
from tests.monitor.monitor_cases import F64, digits_task, moments
from tests.problems import ArraySamples, ring


def small_task(activation):
    """3-4-3 on 24 random points: small enough for a dense Hessian."""
    rng = np.random.default_rng(0)
    samples = ArraySamples(
        torch.from_numpy(rng.standard_normal((24, 3))), torch.from_numpy(rng.integers(3, size=24))
    )

    def build():
        return nn.Sequential(nn.Linear(3, 4), activation(), nn.Linear(4, 3))

    return Task(build, samples, samples, dtype=F64)


def loss(task, row, inputs, labels):
    parameters = {
        layer.name: row[layer.start : layer.stop].view(layer.shape) for layer in task.layers
    }
    return nn.functional.cross_entropy(
        functional_call(task._model.module, parameters, (inputs,)), labels
    )


def dense_hessian(task, row, inputs, labels):
    return torch.autograd.functional.hessian(lambda r: loss(task, r, inputs, labels), row)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU], ids=["tanh", "relu"])
def test_products_are_those_of_the_dense_hessian(activation):
    task = small_task(activation)
    row, everything = task.init(0), np.arange(24)
    vectors = torch.randn(3, task.d, dtype=F64, generator=torch.Generator().manual_seed(1))
    products = task.hessian_vector_sums(row, vectors, task.train, everything) / 24
    hessian = dense_hessian(task, row, *task.train.batch(everything))
    torch.testing.assert_close(products, vectors @ hessian, rtol=1e-12, atol=1e-13)


def test_products_are_the_second_difference_of_a_smooth_loss():
    task = small_task(nn.Tanh)
    row, everything = task.init(0), np.arange(24)
    v = torch.randn(task.d, dtype=F64, generator=torch.Generator().manual_seed(1))
    product = task.hessian_vector_sums(row, v.unsqueeze(0), task.train, everything)[0]
    eps = 1e-5
    there, _ = task.gradient_sum(row + eps * v, task.train, everything)
    back, _ = task.gradient_sum(row - eps * v, task.train, everything)
    torch.testing.assert_close((there - back) / (2 * eps), product, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU], ids=["tanh", "relu"])
@pytest.mark.parametrize("algorithm", ["dpsgd", "ssgd-star"])
def test_both_forms_are_those_of_dense_hessians(activation, algorithm):
    task, n, lr = small_task(activation), 4, 0.3
    monitor = Monitor(task, level="full", hessian_samples=None)
    moment = moments(task, algorithm, n, 3, w=ring(n), lr=lr, batch=5)[-1]
    v = monitor(moment, Stacked(n))
    w_a = moment.x.mean(dim=0)
    deviations = moment.points - w_a
    h = dense_hessian(task, w_a, *task.train.batch(np.arange(24)))
    paper = lr**2 / n**2 * float((deviations @ h).square().sum())
    own = [dense_hessian(task, w_a, moment.inputs[j], moment.labels[j]) for j in range(n)]
    summed = sum(h_j @ deviation for h_j, deviation in zip(own, deviations, strict=True))
    assert v["delta2_hessian"] == pytest.approx(paper, rel=1e-10)
    assert v["delta2_hessian_minibatch"] == pytest.approx(
        lr**2 * float((summed / n).square().sum()), rel=1e-10
    )
    assert v["hessian_samples"] == 24


def test_the_minibatch_form_is_the_first_order_of_delta2():
    """Deviations shrunk by s: Delta2 and its first-order form agree to O(s) on a smooth net."""
    task, n = digits_task("tanh"), 4
    moment = moments(task, "dpsgd", n, 3, w=ring(n))[-1]
    errors = []
    for scale in (1e-2, 1e-3):
        x = moment.x.mean(dim=0) + scale * (moment.x - moment.x.mean(dim=0))
        gradients = task.gradient(x, moment.inputs, moment.labels).values
        shrunk = type(moment)(
            0, 0.3, x, x, gradients, x, x - 0.3 * gradients, moment.inputs, moment.labels
        )
        v = Monitor(task, level="full", hessian_samples=10)(shrunk, Stacked(n))
        errors.append(abs(v["delta2_hessian_minibatch"] / v["delta2"] - 1))
    assert errors[0] < 0.05
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.1)


def test_a_sample_of_the_hessian_is_near_the_whole():
    task, n = digits_task(), 4
    moment = moments(task, "dpsgd", n, 3, w=ring(n))[-1]
    whole = Monitor(task, level="full", hessian_samples=None)(moment, Stacked(n))
    part = Monitor(task, level="full", hessian_samples=600)(moment, Stacked(n))
    assert part["hessian_samples"] == 600
    assert part["delta2_hessian"] == pytest.approx(whole["delta2_hessian"], rel=0.2)
