"""Curvature by the probes of all learners, each of which knows its own samples alone."""

import numpy as np
import pytest
import torch
from torch import nn

from gossip.monitor.effective_rate import MeanModelGradient
from gossip.wrapper import curvature
from gossip.wrapper.probing import ProbeBatches, Replay
from gossip.wrapper.weights import Weights
from tests.monitor.monitor_cases import on_processes

N, D, LR = 3, 5, 0.1
F64 = torch.float64
DRAWS = np.random.default_rng(0)
SAMPLES = [[torch.from_numpy(DRAWS.standard_normal((b, D))) for b in (3, 2 + j)] for j in range(N)]
"""Of each learner two batches; the learners have different numbers of samples."""
ROW, G = (torch.from_numpy(DRAWS.standard_normal(D)) for _ in range(2))
APART = torch.from_numpy(DRAWS.standard_normal((N, D)))
APART -= APART.mean(0)


def loss(module, x):
    """(x . w)^2 / 2, whose Hessian is x x^T."""
    return module(x).square().mean() / 2


def hessian(samples):
    x = torch.cat(samples)
    return x.T @ x / len(x)


def of_all(work):
    """work(replay, probe, comm) of each of the learners, who agree about the result."""

    def mine(comm):
        module = nn.Linear(D, 1, bias=False).double()
        replay = Replay(module, Weights(dict(module.named_parameters()), "m"), loss)
        return work(replay, ProbeBatches(SAMPLES[comm.process], whole=True), comm)

    first, *others = on_processes(N, N, mine)
    assert all(other == pytest.approx(first, rel=1e-14, nan_ok=True) for other in others)
    return first


def test_the_hessian_is_that_of_all_samples_together():
    found = of_all(
        lambda replay, probe, comm: curvature.delta2_hessian(
            replay, LR, ROW, APART[comm.process], probe, comm
        )
    )
    products = APART @ hessian([batch for own in SAMPLES for batch in own])
    assert found == pytest.approx(LR**2 / N**2 * float(products.square().sum()), rel=1e-12)


def test_each_learners_mini_batches_have_their_own():
    found = of_all(
        lambda replay, probe, comm: curvature.delta2_hessian_minibatch(
            replay, LR, ROW, APART[comm.process], SAMPLES[comm.process], comm
        )
    )
    products = [hessian(own) @ apart for own, apart in zip(SAMPLES, APART, strict=True)]
    mean = torch.stack(products).mean(0)
    assert found == pytest.approx(LR**2 * float(mean @ mean), rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_the_curvature_along_the_gradient(scale):
    g = MeanModelGradient(scale * G, scale * float(G @ G), 0.0, 0.0, 1)
    found = of_all(lambda replay, probe, comm: curvature.lipschitz(replay, ROW, g, probe, comm))
    if not scale:
        assert all(map(np.isnan, found.values()))
        return
    expected = float(G @ hessian([b for own in SAMPLES for b in own]) @ G / (G @ G))
    assert found == pytest.approx({"lipschitz": expected, "lipschitz_step": 1 / expected})


def test_a_loss_that_is_linear_has_no_curvature():
    module = nn.Linear(D, 1, bias=False).double()
    weights = Weights(dict(module.named_parameters()), "m")
    replay = Replay(module, weights, lambda m, x: m(x).mean())
    product, samples = curvature.vector_sums(replay, ROW, G, SAMPLES[0])
    assert samples == 5
    assert not product.any()
