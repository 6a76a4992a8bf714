"""Which methods are one another in special cases: each arrow to 1e-12, in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gossip.algorithms import Dpsgd, DpsgdAtc, Ssgd
from gossip.algorithms.diffusion import D2, Edm
from gossip.algorithms.momentum import DecentLam, MixedMomentum, MomentumTracking, QuasiGlobal
from gossip.algorithms.push_sum import PushDiging, Sgp
from gossip.algorithms.relay import Relay
from gossip.algorithms.tracking import TrackingAtc, TrackingAwc, TrackingSemi
from gossip.comm.stacked import Stacked
from tests.problems import optimizer
from tests.quadratics import Matrices, Problem, problem, static, weights

P = problem()
STEPS, LR = 30, 0.02
SGD = optimizer()


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


ARROWS = {
    "qg(beta 0) -> atc": (QuasiGlobal(SGD, 0.0), DpsgdAtc(SGD), "matching"),
    "qg(heavy ball, beta 0) -> atc": (
        QuasiGlobal(SGD, 0.0, 0.9, "heavy-ball"),
        DpsgdAtc(SGD),
        "ring",
    ),
    "qg(mu 1) -> atc": (QuasiGlobal(SGD, 0.9, 1.0, "heavy-ball"), DpsgdAtc(SGD), "ring"),
    "mixed momentum(beta 0) -> atc": (MixedMomentum(SGD, 0.0), DpsgdAtc(SGD), "exponential"),
    "decentlam(beta 0) -> atc": (DecentLam(SGD, 0.0), DpsgdAtc(SGD), "torus"),
    "sgp(doubly stochastic) -> atc": (Sgp(SGD), DpsgdAtc(SGD), "one-peer-exponential"),
    "edm(beta 0) -> d2": (Edm(SGD, beta=0.0), D2(SGD), "ring"),
    "mt(beta 0) -> gt-awc": (MomentumTracking(SGD, 0.0), TrackingAwc(SGD), "ring"),
    "push-diging(doubly stochastic) -> gt-semi-atc": (
        PushDiging(SGD),
        TrackingSemi(SGD),
        "exponential",
    ),
}


@pytest.mark.parametrize("arrow", ARROWS)
def test_a_special_case_is_the_other_method(arrow):
    one, other, topology = ARROWS[arrow]
    walks = [weights(k, P.gradient, static(topology), P.start(), STEPS, LR) for k in (one, other)]
    same(*walks)


def test_relaysgd_of_two_is_atc():
    two = problem(2)
    start = two.start()[:1].expand(2, -1)  # it averages w(0) for those not heard of, nobody of two
    walks = [
        weights(kind(SGD), two.gradient, static("complete", 2), start, STEPS, LR)
        for kind in (Relay, DpsgdAtc)
    ]
    same(*walks)


def test_mixed_momentum_with_complete_averaging_is_ssgd_with_momentum():
    start = P.start()[:1].expand(8, -1)
    found = weights(MixedMomentum(SGD, 0.9), P.gradient, static("complete"), start, STEPS, LR)
    comm, algorithm = Stacked(8), Ssgd(optimizer(momentum=0.9))
    state = algorithm.init(start[0], 8)
    for rows in found:
        state, _ = algorithm.step(state, P.gradient, static("complete")(0), lambda *_: LR, comm)
        same(rows, state.x.expand(8, -1))


def d2_by_psi(p: Problem, w: Matrices, x: Tensor, rate) -> list[Tensor]:
    walk, before = [], None
    for t in range(STEPS):
        psi = x - rate(t) * p.at(x)
        phi = psi if before is None else psi + x - before
        x, before = dense(w(t)) @ phi, psi
        walk.append(x)
    return walk


def d2_by_gradients(p: Problem, w: Matrices, x: Tensor, rate) -> list[Tensor]:
    walk, before = [], None
    for t in range(STEPS):
        g = p.at(x)
        y = x - rate(0) * g if before is None else 2 * x - before[0] - rate(0) * (g - before[1])
        x, before = dense(w(t)) @ y, (x, g)
        walk.append(x)
    return walk


def gt(order: str):
    def walk(p: Problem, w: Matrices, x: Tensor, rate) -> list[Tensor]:
        found, g = [], p.at(x)
        y = dense(w(0)) @ g if order == "atc" else g
        for t in range(STEPS):
            w_t, after = dense(w(t)), dense(w(t + 1))
            x = w_t @ x - rate(t) * y if order == "awc" else w_t @ (x - rate(t) * y)
            now = p.at(x)
            if order == "atc":
                y = after @ (y + now - g)
            else:
                y = (after if order == "awc" else w_t) @ y + now - g
            g = now
            found.append(x)
        return found

    return walk


def push_sum(*, tracks: bool):
    def walk(p: Problem, w: Matrices, x: Tensor, rate) -> list[Tensor]:
        """By numerators u and masses, of which the weights are the ratio."""
        found, u, mass = [], x, torch.ones(p.n, 1, dtype=x.dtype)
        y, before = torch.zeros_like(x), torch.zeros_like(x)
        for t in range(STEPS):
            split = dense(w(t)) / dense(w(t)).sum(0)
            g = p.at(u / mass)
            y, before = y + g - before if tracks else g, g
            u, mass, y = split @ (u - rate(t) * y), split @ mass, split @ y
            found.append(u / mass)
        return found

    return walk


def relay_by_edges(p: Problem, w: Matrices, x: Tensor, rate) -> list[Tensor]:
    """RelaySGD with a message in a table for every directed edge."""
    n, start, walk = p.n, x, []
    near = {j: [k for k in np.flatnonzero(w(0).toarray()[j]).tolist() if k != j] for j in range(n)}
    heard = {(i, j): (torch.zeros(p.d, dtype=x.dtype), 0) for i in near for j in near[i]}
    for t in range(STEPS):
        h = x - rate(t) * p.at(x)
        sent = {}
        for j in near:
            for k in near[j]:
                others = [heard[i, j] for i in near[j] if i != k]
                sent[j, k] = h[j] + sum(m for m, _ in others), 1 + sum(c for _, c in others)
        heard = sent
        x = torch.stack(
            [
                (
                    h[j]
                    + sum(heard[i, j][0] for i in near[j])
                    + (n - 1 - sum(heard[i, j][1] for i in near[j])) * start[j]
                )
                / n
                for j in range(n)
            ]
        )
        walk.append(x)
    return walk


def dense(w) -> Tensor:
    return torch.from_numpy(w.toarray())


def constant(t: int) -> float:
    return LR


def falling(t: int) -> float:
    return LR if t < STEPS // 2 else LR / 4


REFERENCES = {
    "d2 by psi": (D2(SGD), d2_by_psi, ("ring", {"weights": "lazy"}), falling),
    "d2 by gradients": (D2(SGD), d2_by_gradients, ("ring", {"weights": "lazy"}), constant),
    "gt-awc": (TrackingAwc(SGD), gt("awc"), ("matching", {}), falling),
    "gt-atc": (TrackingAtc(SGD), gt("atc"), ("matching", {}), falling),
    "gt-semi-atc": (TrackingSemi(SGD), gt("semi"), ("matching", {}), constant),
    "sgp": (Sgp(SGD), push_sum(tracks=False), ("random-directed", {}), falling),
    "push-diging": (PushDiging(SGD), push_sum(tracks=True), ("random-directed", {}), falling),
    "relaysgd on a chain": (Relay(SGD), relay_by_edges, ("chain", {}), falling),
    "relaysgd on a star": (Relay(SGD), relay_by_edges, ("star", {}), falling),
    "relaysgd on a tree": (Relay(SGD), relay_by_edges, ("binary-tree", {}), constant),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_method_is_its_published_recursion(name):
    algorithm, reference, (topology, options), rate = REFERENCES[name]
    w = static(topology, **options)
    found = weights(algorithm, P.gradient, w, P.start(), STEPS, rate)
    same(found, torch.stack(reference(P, w, P.start(), rate)))


ALONE = {
    "d2": D2,
    "gt-semi-atc": TrackingSemi,
    "sgp": Sgp,
    "relaysgd": Relay,
}
OPTIMIZERS = [("sgd", {"momentum": 0.9, "weight_decay": 0.1}), ("adam", {})]


def alone(algorithm) -> Tensor:
    one = problem(1)
    return weights(algorithm, one.gradient, static("complete", 1), one.start(), STEPS, LR)


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize(("base", "options"), OPTIMIZERS)
def test_a_learner_alone_is_bit_for_bit_its_optimizer(name, base, options):
    made = optimizer(base, **options)
    assert torch.equal(alone(ALONE[name](made)), alone(Dpsgd(made)))


@pytest.mark.parametrize("kind", [TrackingAwc, TrackingAtc, PushDiging])
@pytest.mark.parametrize(("base", "options"), OPTIMIZERS)
def test_a_tracker_alone_is_its_optimizer_but_for_rounding(kind, base, options):
    made = optimizer(base, **options)
    torch.testing.assert_close(alone(kind(made)), alone(Dpsgd(made)), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", [DecentLam, MomentumTracking, MixedMomentum])
def test_a_momentum_alone_is_that_of_torch(kind):
    same(alone(kind(SGD, 0.9)), alone(Dpsgd(optimizer(momentum=0.9))))


def test_quasi_global_momentum_with_equal_rows_is_quasi_hyperbolic():
    """With beta and mu, m decays by mu + (1 - mu) beta and takes (1 - mu) g."""
    beta, mu, one = 0.9, 0.8, problem(1)
    x, m = one.start(), torch.zeros_like(one.start())
    for found in alone(QuasiGlobal(SGD, beta, mu, "heavy-ball")):
        g = one.at(x)
        x, m = x - LR * (beta * m + g), (mu + (1 - mu) * beta) * m + (1 - mu) * g
        same(found, x)
