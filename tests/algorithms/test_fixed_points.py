"""Where methods come to rest, how far learners are apart in noise, and what stays as it was."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from gossip.algorithms import Dpsgd, DpsgdAtc
from gossip.algorithms.diffusion import D2, Edm
from gossip.algorithms.momentum import DecentLam, MomentumTracking, QuasiGlobal
from gossip.algorithms.push_sum import PushDiging, Sgp
from gossip.algorithms.relay import Relay
from gossip.algorithms.tracking import TrackingAtc, TrackingAwc, TrackingSemi
from gossip.comm.stacked import Stacked
from gossip.task import Gradients
from tests.problems import optimizer
from tests.quadratics import begin, end, problem, scalar, static, steps

H, C, F1 = scalar()
BEST = (H * C).sum() / H.sum()
LR = 0.1
SGD = optimizer()
EXACT = {
    "d2": (D2(SGD), "ring"),
    "d2 on a torus": (D2(SGD), "torus"),
    "edm": (Edm(SGD), "ring"),
    "gt-awc": (TrackingAwc(SGD), "ring"),
    "gt-atc": (TrackingAtc(SGD), "ring"),
    "gt-semi-atc": (TrackingSemi(SGD), "ring"),
    "gt-atc, one peer": (TrackingAtc(SGD), "one-peer-exponential"),
    "gt-awc, matchings": (TrackingAwc(SGD), "matching"),
    "gt-semi-atc, directed": (TrackingSemi(SGD), "exponential"),
    "momentum tracking": (MomentumTracking(SGD, 0.5), "ring"),
    "push-diging": (PushDiging(SGD), "random-directed"),
    "relaysgd, chain": (Relay(SGD), "chain"),
    "relaysgd, star": (Relay(SGD), "star"),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_methods_end_at_the_minimum_of_the_mean(name):
    algorithm, topology = EXACT[name]
    x = end(algorithm, F1.gradient, static(topology), F1.start(), 500, LR).x
    assert (x - BEST).abs().max() < 1e-5


def adapt_then_combine(w: np.ndarray, lr: float) -> np.ndarray:
    """(I - W (I - lr D)) x = lr W D c."""
    n = len(H)
    return np.linalg.solve(np.eye(n) - w @ (np.eye(n) - lr * np.diag(H)), lr * w @ (H * C))


BIASED = {
    "atc": (DpsgdAtc(SGD), LR),
    "sgp": (Sgp(SGD), LR),
    "qg-dsgdm": (QuasiGlobal(SGD, direction="heavy-ball"), LR),
    # There m is 0, but Nesterov's direction is g + beta g.
    "qg-dsgdm, nesterov": (QuasiGlobal(SGD, 0.5), 1.5 * LR),
    "decentlam": (DecentLam(SGD), LR),
    # Local momentum enlarges the bias to that of the steady step.
    "atc with momentum": (DpsgdAtc(optimizer(momentum=0.5)), 2 * LR),
}


@pytest.mark.parametrize("name", BIASED)
def test_biased_methods_end_where_adapt_then_combine_does(name):
    algorithm, effective = BIASED[name]
    w = static("ring")
    x = end(algorithm, F1.gradient, w, F1.start(), 500, LR).x[:, 0].numpy()
    np.testing.assert_allclose(x, adapt_then_combine(w(0).toarray(), effective), atol=1e-6)
    assert np.abs(x - BEST).max() > 0.01


def test_push_without_tracking_is_biased_on_a_directed_graph():
    x = end(Sgp(SGD), F1.gradient, static("random-directed"), F1.start(), 500, LR).x
    assert (x - BEST).abs().max() > 0.01


def test_averaging_while_computing_ends_at_its_own_bias():
    w = static("ring")
    x = end(Dpsgd(SGD), F1.gradient, w, F1.start(), 500, LR).x[:, 0].numpy()
    n = len(H)
    expected = np.linalg.solve(np.eye(n) - w(0).toarray() + LR * np.diag(H), LR * H * C)
    np.testing.assert_allclose(x, expected, atol=1e-6)


def test_exact_diffusion_diverges_where_its_condition_does_not_hold():
    """Eigenvalue below -1/3, and a sequence of matrices; neither is given to a run."""
    below = ring_of(0.36)
    assert np.linalg.eigvalsh(below(0).toarray())[0] < -1 / 3
    for w in (below, static("one-peer-exponential")):
        x = end(D2(SGD, "off"), F1.gradient, w, F1.start(), 400, LR).x
        assert not (x.abs().max() < 1e3)


def test_of_w_is_taken_what_the_least_eigenvalue_allows_with_a_margin():
    """Of a swap, whose eigenvalue is -1, 0.95 * 4 / (3 * 2); of one that has room, all."""
    swap, omega = csr_array([[0.0, 1.0], [1.0, 0.0]]), 0.95 * 2 / 3
    expected = [[1 - omega, omega], [omega, 1 - omega]]
    np.testing.assert_allclose(D2(SGD)._mixing(swap).toarray(), expected, rtol=1e-12)
    lazy = ring_of(0.25)(0)
    assert D2(SGD)._mixing(lazy) is lazy


def ring_of(a: float):
    n = 8
    ring = csr_array(
        (1 - 2 * a) * np.eye(n) + a * (np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0))
    )
    return lambda t: ring


# Mean step, and sums that methods keep.

P = problem()
MEAN_STEP = {
    "awc": Dpsgd(SGD),
    "atc": DpsgdAtc(SGD),
    "d2": D2(SGD),
    "gt-awc": TrackingAwc(SGD),
    "gt-atc": TrackingAtc(SGD),
    "gt-semi-atc": TrackingSemi(SGD),
}


@pytest.mark.parametrize("name", MEAN_STEP)
def test_the_mean_moves_by_the_mean_gradient_while_alpha_changes(name):
    x = P.start()
    rate = lambda t: 0.02 if t < 10 else 0.005  # noqa: E731
    for t, state in enumerate(steps(MEAN_STEP[name], P.gradient, static("ring"), x, 20, rate)):
        expected = x.mean(0) - rate(t) * P.at(x).mean(0)
        torch.testing.assert_close(state.x.mean(0), expected, rtol=0, atol=1e-12)
        x = state.x


def test_trackers_have_the_mean_gradient_and_corrections_none():
    for w in (static("ring"), static("matching")):
        for kind in (TrackingAwc, TrackingAtc):
            for state in steps(kind(SGD), P.gradient, w, P.start(), 40, 0.01):
                gap = state.rows["tracker"].mean(0) - state.rows["gradient"].mean(0)
                assert gap.abs().max() < 1e-11
        for algorithm in (TrackingSemi(SGD), MomentumTracking(SGD)):
            for state in steps(algorithm, P.gradient, w, P.start(), 40, 0.01):
                assert state.rows["correction"].mean(0).abs().max() < 1e-11


def test_push_sum_keeps_all_mass():
    for kind in (Sgp, PushDiging):
        for state in steps(kind(SGD), P.gradient, static("random-directed"), P.start(), 40, 0.01):
            assert float(state.rows["mass"].sum()) == pytest.approx(P.n, abs=1e-12)
        assert state.rows["mass"].std() > 0.1


def test_relays_of_zero_increments_have_the_mean_after_the_diameter():
    """Chain of 8: seven steps, and not one earlier; their weights are held, so h stays."""
    start = P.start()

    def nothing(x):
        return Gradients(torch.zeros_like(x), x.sum(1))

    algorithm, mean = Relay(SGD), start.mean(0)
    state, comm, w = begin(algorithm, start), Stacked(8), static("chain")(0)
    errors = []
    for _ in range(8):
        state, _ = algorithm.step(state, nothing, w, lambda *_: 0.0, comm)
        errors.append(float((state.x - mean).abs().max()))
        state = state._replace(x=start)
    assert errors[5] > 0.01
    assert errors[6] < 1e-14


# Flat landscape: gradients are noise, and so are the weights' differences.

D, N, COUNT, BURN = 1000, 8, 250, 50


def noise():
    random = torch.Generator().manual_seed(0)

    def gradient(x):
        g = torch.randn(x.shape, generator=random, dtype=torch.float64)
        return Gradients(g, g.sum(1))

    return gradient


def awc(e, b):
    return (1 + e * b) / ((1 - e * b) * (1 - e * e) * (1 - b * b))


FLAT = {
    "awc": (Dpsgd(SGD), lambda e: 1 / (1 - e * e)),
    "atc": (DpsgdAtc(SGD), lambda e: e * e / (1 - e * e)),
    "awc with momentum": (Dpsgd(optimizer(momentum=0.5)), lambda e: awc(e, 0.5)),
    "atc with momentum": (DpsgdAtc(optimizer(momentum=0.5)), lambda e: e * e * awc(e, 0.5)),
    "d2": (D2(SGD, "off"), lambda e: 2 * e * e / ((1 - e) * (1 + 3 * e))),
}


@pytest.mark.parametrize("name", FLAT)
def test_weight_variance_in_noise_follows_from_the_spectrum(name):
    algorithm, each = FLAT[name]
    w = static("ring", N, weights="lazy")
    values = np.sort(np.linalg.eigvalsh(w(0).toarray()))[:-1]
    expected = sum(map(each, values)) / N
    start = torch.zeros(N, D, dtype=torch.float64)
    found = []
    for t, state in enumerate(steps(algorithm, noise(), w, start, COUNT, 1.0)):
        if t >= BURN:
            found.append(float((state.x - state.x.mean(0)).square().sum()) / N / D)
    assert np.mean(found) == pytest.approx(expected, rel=0.03)
