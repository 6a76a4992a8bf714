"""Round methods beside DiLoCo: their special cases, fixed points, spreads and invariants."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gossip.algorithms import DpsgdAtc, Ssgd
from gossip.algorithms.outer import DiLoCo, Lookahead, Outer, PostLocal
from gossip.algorithms.partners import Gasloc, NoLoCo, growth_of_differences
from gossip.algorithms.sparse_rounds import SparseLoCo, Sparta
from gossip.algorithms.streaming import Eager, Streaming
from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.task import Gradients
from tests.problems import optimizer
from tests.quadratics import end, problem, scalar, static, steps, weights

P = problem()
SGD = optimizer()
LR, STEPS = 0.02, 25
ALIKE = P.start()[:1].expand(8, -1)
ALL, RING = static("complete"), static("ring")


def walk(algorithm, w=ALL, start=ALIKE, count=STEPS, p=P):
    return weights(algorithm, p.gradient, w, start, count, LR)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


ARROWS = {
    "streaming(P 1, tau 0, a 0) -> diloco": (
        Streaming(SGD, 4, 0.7, 0.9, "nesterov", 1, 0, 0.0),
        DiLoCo(SGD, 4),
    ),
    "lookahead -> outer(mu 0)": (Lookahead(SGD), Outer(SGD, 5, 0.5)),
    "post-local(after 0) -> local": (PostLocal(SGD, 4, after=0), Outer(SGD, 4)),
    "post-local(after all), momentum -> atc": (
        PostLocal(optimizer(momentum=0.9), 4, after=99),
        DpsgdAtc(optimizer(momentum=0.9)),
    ),
    "gasloc inside(complete) -> diloco": (Gasloc(SGD, 4), DiLoCo(SGD, 4)),
    "sparta(p 1) -> atc": (Sparta(SGD, share=1.0), DpsgdAtc(SGD)),
    "sparseloco(all) -> outer(mu 0)": (
        SparseLoCo(SGD, 4, compressor="identity", beta=0.5),
        Outer(SGD, 4, 0.4),
    ),
    "sparseloco(all, nesterov) -> diloco": (
        SparseLoCo(SGD, 4, 0.7, 0.9, "nesterov", compressor="top-k:6"),
        DiLoCo(SGD, 4),
    ),
}


@pytest.mark.parametrize("arrow", ARROWS)
def test_a_special_case_is_the_other_method(arrow):
    one, other = ARROWS[arrow]
    same(walk(one), walk(other))


@pytest.mark.parametrize("momentum", ["inside", "outside"])
def test_gasloc_in_rounds_of_one_step_without_momentum_is_atc(momentum):
    algorithm = Gasloc(SGD, 1, 1.0, 0.0, momentum=momentum)
    same(walk(algorithm, RING, P.start()), walk(DpsgdAtc(SGD), RING, P.start()))


def test_gasloc_as_printed_leaves_learners_apart_on_the_complete_graph():
    """By gamma (z - z_prev), of which they have different ones."""
    ends = [walk(Gasloc(SGD, 4, momentum=m))[-2] for m in ("inside", "outside")]
    spread = [float((x - x.mean(0)).abs().max()) for x in ends]
    assert spread[0] < 1e-12
    assert spread[1] > 0.01


def flat(algorithm, n, w, count, burn, d=300):
    """Mean sigma_w^2 per coordinate from the first `burn` rounds on, gradients being noise."""
    draws = torch.Generator().manual_seed(3)
    comm, state = Stacked(n), algorithm.init(torch.zeros(d, dtype=torch.float64), n)
    found = []

    def noise(x):
        values = torch.randn(n, d, generator=draws, dtype=torch.float64)
        return Gradients(values, values.sum(1))

    for t in range(count):
        state, _ = algorithm.step(state, noise, w(t), lambda *_: 1.0, comm)
        if t >= burn:
            found.append(float((state.x - state.x.mean(0)).square().mean()))
    return np.mean(found)


def gasloc_spread(momentum, mu, n=8):
    """Of rounds of one step with eta = 1: the table of stationary variances."""
    lam = np.linalg.eigvalsh(RING(0).toarray())[:-1]
    own = lam * mu if momentum == "inside" else mu
    both = lam * (1 + mu) if momentum == "inside" else lam + mu
    # z = both z' - own z'' + noise, as AR(2); what follows the averaging is without the noise.
    variance = (1 + own) / ((1 - own) * ((1 + own) ** 2 - both**2))
    return (variance - 1).sum() / n


@pytest.mark.parametrize("momentum", ["inside", "outside"])
def test_the_spread_of_gasloc_on_a_flat_landscape_is_an_autoregression(momentum):
    algorithm = Gasloc(SGD, 1, 1.0, 0.5, momentum=momentum)
    measured = flat(algorithm, 8, RING, 700, 60)
    assert measured == pytest.approx(gasloc_spread(momentum, 0.5), rel=0.03)


def test_the_spread_of_noloco_on_a_flat_landscape_is_the_published_number():
    measured = flat(NoLoCo(SGD, 1, 0.7, 0.5), 8, ALL, 900, 60)
    assert measured == pytest.approx(0.811, rel=0.03)


def test_the_spread_of_sparta_on_a_flat_landscape():
    n, p = 8, 0.1
    measured = flat(Sparta(SGD, share=p), n, ALL, 900, 100)
    assert measured == pytest.approx((1 - 1 / n) * (1 - p) / p, rel=0.03)


def test_the_mean_of_noloco_is_a_heavy_ball_whatever_the_pairs():
    algorithm = NoLoCo(SGD, 3, 0.7, 0.5)
    m, theta = torch.zeros(P.d, dtype=torch.float64), ALIKE.mean(0)
    states = list(steps(algorithm, P.gradient, ALL, ALIKE, 12, LR))
    begin = ALIKE
    for r in range(4):
        y = begin
        for _ in range(3):
            y = y - LR * P.at(y)
        m = 0.5 * m + 0.7 * (y - begin).mean(0)
        theta, begin = theta + m, states[3 * r + 2].x
        same(begin.mean(0), theta)
    assert (begin - begin.mean(0)).abs().max() > 1e-3


def test_two_partners_are_all_learners():
    """With S = 11^T/n it is the heavy ball of all."""
    two = problem(2)
    start = two.start()[:1].expand(2, -1)
    kinds = (NoLoCo(SGD, 4, 0.7, 0.5), Outer(SGD, 4, 0.7, 0.5))
    same(*(walk(k, static("complete", 2), start, p=two) for k in kinds))


@pytest.mark.parametrize(
    ("mu", "most"), [(0.0, 2.0), (0.3, 1.82), (0.5, 1.50), (0.7, 1.02), (0.9, 0.38)]
)
def test_the_largest_gamma_of_noloco(mu, most):
    assert growth_of_differences(mu, most - 0.02) < 1 < growth_of_differences(mu, most + 0.02)
    NoLoCo(SGD, mu=mu, gamma=most - 0.02)
    with pytest.raises(UserError, match="drift apart"):
        NoLoCo(SGD, mu=mu, gamma=most + 0.02)


def test_who_merges_nothing_hears_nothing():
    alone = Streaming(SGD, 4, fragments=2, merge=1.0)
    never = Outer(SGD, 999)
    assert torch.equal(walk(alone), walk(never))


def test_theta_of_a_stream_is_the_same_for_all():
    algorithm = Streaming(SGD, 6, fragments=3, delay=1)
    for state in steps(algorithm, P.gradient, ALL, ALIKE, STEPS, LR):
        assert torch.equal(state.rows["anchor"], state.rows["anchor"][:1].expand(8, -1))


def test_each_fragment_of_a_stream_is_its_recursion():
    """Two fragments a step late, by hand on whole vectors."""
    H, late, eta, mu, a = 4, 1, 0.7, 0.9, 0.25
    pieces = [slice(0, 3), slice(3, 6)]
    x, theta, v, sent = ALIKE.clone(), ALIKE[0].clone(), torch.zeros(6, dtype=torch.float64), {}
    found = walk(Streaming(SGD, H, fragments=2, delay=late, merge=a))
    for t, rows in enumerate(found, start=1):
        x = x - LR * P.at(x)
        for p, piece in enumerate(pieces):
            if t > H * p / 2 and (t - H * p / 2) % H == 0:
                sent[t + late] = piece, theta[piece] - x[:, piece].mean(0)
        if t in sent:
            piece, delta = sent.pop(t)
            v[piece] = mu * v[piece] + delta
            theta[piece] -= eta * (delta + mu * v[piece])
            x[:, piece] = (1 - a) * theta[piece] + a * x[:, piece]
        same(rows, x)


def test_eager_updates_take_the_others_of_the_round_before():
    """The own Delta/n of this round, and of the others their sum/n of the last."""
    every, theta = 3, ALIKE
    v, before = torch.zeros_like(theta), torch.zeros_like(theta)
    for found in walk(Eager(SGD, every), count=12)[every - 1 :: every]:
        y = theta
        for _ in range(every):
            y = y - LR * P.at(y)
        delta = theta - y
        update = (delta + before.sum(0) - before) / 8
        v, before = 0.9 * v + update, delta
        theta = theta - 0.7 * (update + 0.9 * v)
        same(found, theta)
    assert (theta - theta.mean(0)).abs().max() > 1e-3


def test_alone_eager_updates_are_diloco():
    one = problem(1)
    kinds = (Eager(SGD, 4), DiLoCo(SGD, 4))
    same(*(walk(k, static("complete", 1), one.start(), p=one) for k in kinds))


def test_post_local_is_ssgd_and_then_rounds():
    momentum = optimizer(momentum=0.9)
    found = walk(PostLocal(momentum, 4, after=6), count=14)
    comm, ssgd = Stacked(8), Ssgd(momentum)
    state = ssgd.init(ALIKE[0], 8)
    for rows in found[:6]:
        state, _ = ssgd.step(state, P.gradient, ALL(0), lambda *_: LR, comm)
        same(rows, state.x.expand(8, -1))
    spread = (found - found.mean(1, keepdim=True)).abs().amax((1, 2)) > 1e-12
    assert spread.tolist() == [False] * 6 + [True] * 3 + [False] + [True] * 3 + [False]


def test_the_mean_of_sparta_is_ssgd_where_the_curvature_is_common():
    """Its mean step is the mean increment, at each learner's own weights."""
    x = P.start()
    for state in steps(Sparta(SGD, share=0.3), P.gradient, ALL, x, 20, LR):
        same(state.x.mean(0), (x - LR * P.at(x)).mean(0))
        x = state.x


def test_sparta_in_turn_has_averaged_all_after_a_cycle():
    still = replace(Sparta(SGD, share=0.4), selector="in-turn")  # 2 of 6 coordinates
    rows = weights(still, P.gradient, ALL, P.start(), 3, 0.0)
    same(rows[-1], P.start().mean(0).expand(8, -1))
    assert (rows[1] - rows[1].mean(0)).abs().max() > 0.1


def test_sparseloco_delivers_all_in_the_end():
    """With beta = 1 what is left out and what was delivered are all that was done."""
    algorithm = SparseLoCo(SGD, 1, compressor="top-k:2", beta=1.0)
    done, start = torch.zeros(P.d, dtype=torch.float64), ALIKE
    for state in steps(algorithm, P.gradient, ALL, ALIKE, STEPS, LR):
        done = done + LR * P.at(start).mean(0)
        delivered = (ALIKE[0] - state.x[0]) / algorithm.eta
        same(delivered + state.rows["error"].mean(0), done)
        assert torch.equal(state.x, state.x[:1].expand(8, -1))
        start = state.x


@pytest.mark.parametrize(
    ("algorithm", "alone"),
    [
        (Lookahead(SGD, 10), 10),
        (Streaming(SGD, 10, fragments=1, delay=0, merge=0.0), 10),
        (Streaming(SGD, 10, fragments=1, delay=3, merge=0.0), 7),
    ],
    ids=["lookahead", "streaming", "streaming late"],
)
def test_the_outer_optimizer_does_not_move_where_local_steps_end(algorithm, alone):
    """The end is sum q c / sum q, q = 1 - (1 - alpha h)^steps between hearing and telling."""
    h, c, f1 = scalar()
    state = end(algorithm, f1.gradient, ALL, f1.start()[:1].expand(8, -1), 1500, 0.1)
    q = 1 - (1 - 0.1 * h) ** alone
    np.testing.assert_allclose(state.rows["anchor"], (q * c).sum() / q.sum(), atol=1e-7)


REFUSED = [
    (lambda: Outer(SGD, 0), "every=0"),
    (lambda: Streaming(SGD, 10, fragments=3), "do not divide"),
    (lambda: Streaming(SGD, 10, fragments=5, delay=2), "from 0 to 1"),
    (lambda: Streaming(SGD, 10, fragments=2, merge=1.5), "share"),
    (lambda: Streaming(SGD, 100, fragments=50, delay=0).check(10), "give fewer"),
    (lambda: PostLocal(SGD, after=-1), "0 or more"),
    (lambda: Gasloc(SGD, momentum="insde"), "did you mean inside"),
    (lambda: Sparta(SGD, share=0.0), "share of the coordinates"),
    (lambda: Sparta(SGD, selector="inturn"), "did you mean in-turn"),
    (lambda: SparseLoCo(SGD, compressor="topk:3"), "did you mean top-k"),
    (lambda: SparseLoCo(SGD, beta=1.5), "share, in"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_bad_options_are_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
