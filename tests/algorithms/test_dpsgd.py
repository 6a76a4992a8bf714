"""What DPSGD's mean, deviations and special cases must do."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from gossip.algorithms import Dpsgd, DpsgdAtc, Ssgd
from gossip.algorithms.base import Algorithm, Gradient, State, Step
from gossip.comm.stacked import Stacked
from gossip.task import Gradients
from tests.problems import complete, optimizer, quadratic, ring

N, D, LR = 6, 7, 0.05
DOUBLY_STOCHASTIC = {"ring": ring, "complete": complete}


def walk(
    algorithm: Algorithm, gradient: Gradient, w, steps: int, *, n: int = N, lr: float = LR
) -> Iterator[tuple[State, Step, State]]:
    comm = Stacked(n)
    state = algorithm.init(torch.linspace(-1, 1, D, dtype=torch.float64), n)
    for _ in range(steps):
        before = state
        state, step = algorithm.step(state, gradient, w, lambda *_: lr, comm)
        yield before, step, state


def last(*args, **kwargs) -> Tensor:
    return list(walk(*args, **kwargs))[-1][-1].x


@pytest.mark.parametrize("make", [Dpsgd, DpsgdAtc, Ssgd])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgd", {"momentum": 0.9, "weight_decay": 0.1}),
        ("adam", {}),
        ("adamw", {"weight_decay": 0.1}),
    ],
)
def test_a_learner_alone_is_bit_for_bit_its_torch_optimizer(make, name, options):
    _, _, gradient = quadratic(D, 1)
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, D, dtype=torch.float64))
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    reference = kind([parameter], lr=LR, **options)
    for _, _, state in walk(make(optimizer(name, **options)), gradient, complete(1), 20, n=1):
        parameter.grad = gradient(parameter.data[None]).values[0]
        reference.step()
        assert torch.equal(state.x[0], parameter.data)


@pytest.mark.parametrize("make", [Dpsgd, DpsgdAtc])
@pytest.mark.parametrize("graph", DOUBLY_STOCHASTIC)
def test_the_mean_moves_by_the_mean_gradient_alone(make, graph):
    _, _, gradient = quadratic(D, N)
    w = DOUBLY_STOCHASTIC[graph](N)
    for before, step, after in walk(make(optimizer()), gradient, w, 30):
        residual = after.x.mean(0) - before.x.mean(0) + LR * step.gradients.mean(0)
        assert residual.abs().max() < 1e-12


def test_atc_with_complete_averaging_is_ssgd():
    _, _, gradient = quadratic(D, N)
    atc = walk(DpsgdAtc(optimizer()), gradient, complete(N), 50)
    ssgd = walk(Ssgd(optimizer()), gradient, complete(N), 50)
    for (_, _, a), (_, _, s) in zip(atc, ssgd, strict=True):
        torch.testing.assert_close(a.x, s.x.expand(N, D), rtol=1e-12, atol=1e-12)


def curved(x: Tensor) -> Gradients:
    """Different data per learner and a gradient that is not linear in x."""
    rows = torch.arange(1.0, len(x) + 1, dtype=x.dtype)[:, None] if len(x) > 1 else None
    if rows is None:
        gradients, losses = zip(*(curved_row(x[0], float(j)) for j in range(1, N + 1)), strict=True)
        return Gradients(
            torch.stack(gradients).mean(0, keepdim=True), torch.stack(losses).mean()[None]
        )
    pairs = [curved_row(row, float(j)) for j, row in enumerate(x, start=1)]
    return Gradients(torch.stack([g for g, _ in pairs]), torch.stack([loss for _, loss in pairs]))


def curved_row(row: Tensor, j: float) -> tuple[Tensor, Tensor]:
    return torch.sin(j * row) + row, (row.square() / 2 - torch.cos(j * row) / j).sum()


def test_awc_with_complete_averaging_agrees_with_ssgd_for_one_step_only():
    awc = list(walk(Dpsgd(optimizer()), curved, complete(N), 3))
    ssgd = list(walk(Ssgd(optimizer()), curved, complete(N), 3))
    torch.testing.assert_close(awc[0][2].x.mean(0), ssgd[0][2].x[0], rtol=1e-12, atol=1e-12)
    assert (awc[1][2].x.mean(0) - ssgd[1][2].x[0]).abs().max() > 1e-6
    for _, step, after in awc:
        deviation = after.x - after.x.mean(0)
        expected = -LR * (step.gradients - step.gradients.mean(0))
        torch.testing.assert_close(deviation, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [Dpsgd, DpsgdAtc, Ssgd])
def test_identical_batches_make_every_algorithm_sgd(make):
    def gradient(x: Tensor) -> Gradients:
        pairs = [curved_row(row, 2.0) for row in x]
        return Gradients(torch.stack([g for g, _ in pairs]), torch.stack([f for _, f in pairs]))

    x = torch.linspace(-1, 1, D, dtype=torch.float64)
    for _, _, state in walk(make(optimizer()), gradient, ring(N), 30):
        x = x - LR * curved_row(x, 2.0)[0]
        torch.testing.assert_close(state.x, x.expand_as(state.x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [Dpsgd, DpsgdAtc])
def test_at_rate_zero_deviations_contract_by_sigma2(make):
    w, comm = ring(N), Stacked(N)
    vectors, singular, _ = np.linalg.svd(w.toarray() - 1 / N)
    state = make(optimizer()).init(torch.zeros(1, dtype=torch.float64), N)
    state = state._replace(x=torch.from_numpy(vectors[:, :1].copy()))
    _, _, gradient = quadratic(1, N)
    for t in range(1, 6):
        state, _ = make(optimizer()).step(state, gradient, w, lambda *_: 0.0, comm)
        distance = (state.x - state.x.mean(0)).norm()
        assert float(distance) == pytest.approx(singular[0] ** t, rel=1e-10)


@pytest.mark.parametrize("graph", DOUBLY_STOCHASTIC)
def test_with_a_common_hessian_the_mean_is_sgd_on_the_mean_problem(graph):
    hessian, c, gradient = quadratic(D, N)
    x = torch.linspace(-1, 1, D, dtype=torch.float64)
    w = DOUBLY_STOCHASTIC[graph](N)
    for _, _, after in walk(Dpsgd(optimizer()), gradient, w, 40):
        x = x - LR * (hessian @ x - c.mean(0))
        torch.testing.assert_close(after.x.mean(0), x, rtol=1e-11, atol=1e-12)


def test_constant_gradients_leave_the_stationary_deviation():
    """dev = W dev - lr (G - mean G), so dev = -lr (I - W + J)^-1 (I - J) G."""
    g = torch.from_numpy(np.random.default_rng(1).standard_normal((N, D)))
    w, j = ring(N).toarray(), np.full((N, N), 1 / N)
    expected = -LR * np.linalg.solve(np.eye(N) - w + j, (np.eye(N) - j) @ g.numpy())
    x = last(Dpsgd(optimizer()), lambda x: Gradients(g, g.sum(1)), ring(N), 300)
    torch.testing.assert_close(x - x.mean(0), torch.from_numpy(expected), rtol=1e-9, atol=1e-11)


def test_weight_decay_acts_on_the_own_weights_not_on_the_mixed_ones():
    """With zero gradients w(t+1) = W w - lr lambda w(t)."""
    w, decay = ring(N), 0.3
    algorithm = Dpsgd(optimizer(weight_decay=decay))
    start = torch.from_numpy(np.random.default_rng(2).standard_normal((N, D)))
    state = algorithm.init(torch.zeros(D, dtype=torch.float64), N)._replace(x=start)
    after, _ = algorithm.step(
        state, lambda x: Gradients(torch.zeros_like(x), x.sum(1)), w, lambda *_: LR, Stacked(N)
    )
    expected = torch.from_numpy(w.toarray()) @ start - LR * decay * start
    torch.testing.assert_close(after.x, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [Dpsgd, DpsgdAtc, Ssgd])
def test_a_step_leaves_the_state_before_it_as_it_was(make):
    _, _, gradient = quadratic(D, N)
    for before, _, _ in walk(make(optimizer(momentum=0.9)), gradient, ring(N), 3):
        kept = before.x.clone()
        make(optimizer()).step(before, gradient, ring(N), lambda *_: LR, Stacked(N))
        assert torch.equal(before.x, kept)
