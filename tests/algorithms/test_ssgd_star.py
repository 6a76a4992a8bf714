"""Injected noise: its mean, its variance, and the three readings of where it acts."""

import numpy as np
import pytest
import torch

from gossip.algorithms import NOISE_MODES, Ssgd, SsgdStar
from gossip.comm.stacked import Stacked
from gossip.task.layers import Layer
from tests.problems import complete, optimizer, quadratic

N, D, LR, STD = 5, 4, 0.1, 0.3
W = complete(N)
LAYERS = (Layer("w", 0, D, torch.Size((2, 2))),)


def star(mode: str, *, std: float = STD, seed: int = 0) -> SsgdStar:
    return SsgdStar(optimizer(), std, mode, seed)


def walk(algorithm, gradient, steps: int):
    state = algorithm.init(torch.ones(D, dtype=torch.float64), N)
    for _ in range(steps):
        state, step = algorithm.step(state, gradient, W, lambda *_: LR, Stacked(N))
        yield step, state


@pytest.mark.parametrize("mode", NOISE_MODES)
def test_without_noise_it_is_ssgd_bit_for_bit(mode):
    _, _, gradient = quadratic(D, N)
    noiseless = walk(star(mode, std=0.0), gradient, 20)
    for (_, a), (_, b) in zip(noiseless, walk(Ssgd(optimizer()), gradient, 20), strict=True):
        assert torch.equal(a.x, b.x)


def test_on_a_quadratic_noise_adds_variance_but_no_drift():
    """One step from the same point: mean as SSGD's, covariance lr^2 sigma^2 H^2 / n."""
    hessian, _, gradient = quadratic(D, N)
    expected = next(walk(Ssgd(optimizer()), gradient, 1))[1].x[0]
    draws = torch.stack(
        [next(walk(star("eval", seed=s), gradient, 1))[1].x[0] for s in range(4000)]
    )
    covariance = (LR * STD) ** 2 * (hessian @ hessian) / N
    error = (draws.mean(0) - expected).abs()
    assert (error < 5 * (covariance.diagonal() / 4000).sqrt()).all()
    torch.testing.assert_close(
        torch.cov(draws.T), covariance, rtol=0.1, atol=0.1 * float(covariance.max())
    )


def test_centered_noise_on_a_common_quadratic_is_ssgd():
    _, _, gradient = quadratic(D, N)
    centered = walk(star("centered"), gradient, 30)
    for (_, a), (_, b) in zip(centered, walk(Ssgd(optimizer()), gradient, 30), strict=True):
        torch.testing.assert_close(a.x, b.x, rtol=1e-12, atol=1e-12)


def test_the_injected_noise_has_the_variance_asked_for():
    _, _, gradient = quadratic(D, N)
    mean = torch.ones(D, dtype=torch.float64)
    squares, count = 0.0, 0
    for step, state in walk(star("eval"), gradient, 2000):
        squares += float(((step.points - mean) / STD).square().sum())
        count += N * D
        mean = state.x[0]
    # chi^2 with `count` degrees of freedom has standard deviation sqrt(2 count).
    assert abs(squares - count) < 5 * np.sqrt(2 * count)


def test_persistent_noise_moves_the_mean_by_its_mean():
    _, _, gradient = quadratic(D, N)
    step, state = next(walk(star("persist"), gradient, 1))
    delta = step.points - 1
    expected = 1 + delta.mean(0) - LR * step.gradients.mean(0)
    torch.testing.assert_close(state.x[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", NOISE_MODES)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "lars"])
def test_weight_decay_is_that_of_the_mean_model_about_which_gradients_are_taken(name, mode):
    """x(t+1) = OPT(w_a, g_a), and mean(delta) more in `persist`: of SGD -a (g_a + lambda w_a)."""
    _, _, gradient = quadratic(D, N)
    make = optimizer(name, LAYERS, weight_decay=0.5)
    plain, start = make(), torch.ones(1, D, dtype=torch.float64)
    for step, state in walk(SsgdStar(make, STD, mode, 0), gradient, 3):
        g = step.gradients.mean(0)
        expected = plain.step(start, g.unsqueeze(0), LR)
        if name == "sgd":
            torch.testing.assert_close(expected, start - LR * (g + 0.5 * start))
        if mode == "persist":
            expected = expected + (step.points - start).mean(0)
        torch.testing.assert_close(state.x, expected, rtol=1e-12, atol=1e-12)
        start = state.x


def test_centered_noise_sums_to_zero():
    _, _, gradient = quadratic(D, N)
    for step, _ in walk(star("centered"), gradient, 1):
        assert (step.points - 1).sum(0).abs().max() < 1e-14


def test_noise_is_addressed_by_seed_learner_and_step():
    _, _, gradient = quadratic(D, N)
    first, again = (list(walk(star("eval"), gradient, 3)) for _ in range(2))
    assert all(torch.equal(a[0].points, b[0].points) for a, b in zip(first, again, strict=True))
    other = list(walk(star("eval", seed=1), gradient, 1))
    assert not torch.equal(first[0][0].points, other[0][0].points)
    rows = first[0][0].points
    assert len({tuple(row.tolist()) for row in rows}) == N
