"""Rounds of local steps: special cases of the outer optimizer, and where they end."""

import numpy as np
import pytest
import torch

from gossip.algorithms import DpsgdAtc, Ssgd
from gossip.algorithms.outer import DiLoCo, Outer, PostLocal, SlowMo
from gossip.comm.stacked import Stacked
from gossip.rates import Controller
from gossip.task.layers import Layer
from tests.problems import optimizer
from tests.quadratics import end, problem, scalar, static, weights
from tests.rates.cases import made

P = problem()
SGD = optimizer()
LR, STEPS = 0.02, 21
ALIKE = P.start()[:1].expand(8, -1)
ALL = static("complete")


def walk(algorithm, steps=STEPS, rate=LR, p=P, start=ALIKE):
    return weights(algorithm, p.gradient, static("complete", p.n), start, steps, rate)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def reference(every, eta, mu, form, rate=lambda t: LR):
    """DiLoCo in numpy's way: one theta, n walks of H steps."""
    theta, v, found, t = ALIKE[0], torch.zeros(P.d, dtype=torch.float64), [], 0
    while t + every <= STEPS:
        x = theta.expand(P.n, -1)
        for _ in range(every):
            x = x - rate(t) * P.at(x)
            t += 1
        delta = theta - x.mean(0)
        v = mu * v + delta
        theta = theta - eta * (delta + mu * v if form == "nesterov" else v)
        found.append(theta)
    return found


@pytest.mark.parametrize("form", ["nesterov", "heavy-ball"])
@pytest.mark.parametrize("every", [1, 4, 7])
def test_it_is_its_recursion(every, form):
    found = walk(Outer(SGD, every, 0.7, 0.6, form))[every - 1 :: every]
    for rows, theta in zip(found, reference(every, 0.7, 0.6, form), strict=True):
        same(rows, theta.expand(8, -1))


def test_rounds_end_after_steps_3_and_6():
    x = walk(Outer(SGD, 3), steps=7)
    spread = (x - x.mean(1, keepdim=True)).abs().amax((1, 2))
    assert (spread == 0).tolist() == [False, False, True, False, False, True, False]


def test_rounds_of_one_step_are_ssgd_and_atc_with_complete_averaging():
    local = walk(Outer(SGD, 1))
    same(local, walk(DpsgdAtc(SGD)))
    comm, algorithm = Stacked(8), Ssgd(SGD)
    state = algorithm.init(ALIKE[0], 8)
    for rows in local:
        state, _ = algorithm.step(state, P.gradient, ALL(0), lambda *_: LR, comm)
        same(rows, state.x.expand(8, -1))


def test_diloco_with_rounds_of_one_step_is_nesterov_with_both_rates():
    comm, algorithm = Stacked(8), Ssgd(optimizer("nesterov", momentum=0.9))
    state = algorithm.init(ALIKE[0], 8)
    for rows in walk(DiLoCo(SGD, 1)):
        state, _ = algorithm.step(state, P.gradient, ALL(0), lambda *_: 0.7 * LR, comm)
        same(rows, state.x.expand(8, -1))


def test_slowmo_is_heavy_ball_while_the_rate_is_constant():
    same(walk(SlowMo(SGD, 4, 0.8, 0.5)), walk(Outer(SGD, 4, 0.8, 0.5, "heavy-ball")))
    falling = [
        walk(k, rate=lambda t: LR / (1 + t)) for k in (SlowMo(SGD, 4), Outer(SGD, 4, mu=0.7))
    ]
    assert (falling[0] - falling[1]).abs().max() > 1e-6


def test_a_learner_alone_without_momentum_looks_ahead():
    one = problem(1)
    x, slow = one.start(), one.start()
    for t, rows in enumerate(walk(Outer(SGD, 5, 0.5), p=one, start=one.start()), start=1):
        x = x - LR * one.at(x)
        if t % 5 == 0:
            x = slow = slow + 0.5 * (x - slow)
        same(rows, x)


def test_a_learner_alone_in_local_sgd_is_bit_for_bit_its_optimizer():
    one, made = problem(1), optimizer("adam")
    alone = [walk(k, p=one, start=one.start()) for k in (Outer(made, 4), DpsgdAtc(made))]
    assert torch.equal(*alone)


@pytest.mark.parametrize(
    "algorithm",
    [Outer(SGD, 10), DiLoCo(SGD, 10), SlowMo(SGD, 10)],
    ids=["local", "diloco", "slowmo"],
)
def test_no_outer_optimizer_removes_the_bias_of_local_steps(algorithm):
    """The end of each is sum q c / sum q, q = 1 - (1 - alpha h)^H."""
    h, c, f1 = scalar()
    x = end(algorithm, f1.gradient, ALL, f1.start()[:1].expand(8, -1), 1500, 0.1).x
    q = 1 - (1 - 0.1 * h) ** 10
    np.testing.assert_allclose(x, (q * c).sum() / q.sum(), atol=1e-7)
    assert abs((q * c).sum() / q.sum() - (h * c).sum() / h.sum()) > 0.01


def test_learners_of_post_local_sgd_are_alike_at_first_with_a_rate_for_each_layer():
    """The ratios are of the mean gradient, which their optimizers take: all are SSGD."""
    layers = (Layer("a", 0, 4, torch.Size([4])), Layer("b", 4, 6, torch.Size([2])))
    rule = made(8, layers=layers, lr=LR, layer_ratio="fixed")
    comm, sgd = Stacked(8), optimizer("sgd", layers, momentum=0.9)
    states = [k.init(ALIKE[0], 8) for k in (PostLocal(sgd, after=5), Ssgd(sgd))]
    rates = [Controller(rule, comm) for _ in states]
    for t in range(5):
        for i, algorithm in enumerate((PostLocal(sgd, after=5), Ssgd(sgd))):
            states[i], _ = algorithm.step(states[i], P.gradient, ALL(t), rates[i].at(t), comm)
        rows, one = states[0].x, states[1].x
        assert torch.equal(rows, rows[:1].expand(8, -1))
        same(rows, one.expand(8, -1))


def test_a_round_sends_one_average():
    comm = Stacked(8)
    algorithm = Outer(SGD, 4)
    state = algorithm.init(ALIKE[0], 8)
    for _ in range(8):
        state, _ = algorithm.step(state, P.gradient, ALL(0), lambda *_: LR, comm)
    assert comm.traffic.bytes_sent_per_learner == 2 * (2 * 7 / 8 * 8 * P.d)
