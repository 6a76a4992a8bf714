"""Methods that compress: special cases, the mean that stays, where they end, and what fails."""

import numpy as np
import pytest
import torch

from gossip.algorithms import Dpsgd, DpsgdAtc
from gossip.algorithms.beer import Beer
from gossip.algorithms.choco import ChocoAtc, ChocoAwc
from gossip.algorithms.dcd import Dcd, Ecd
from gossip.algorithms.deep_squeeze import DeepSqueeze
from gossip.algorithms.tracking import TrackingAwc
from gossip.comm.stacked import Stacked
from gossip.compress import compressed, operator
from gossip.task import Gradients
from tests.problems import optimizer
from tests.quadratics import end, problem, scalar, static, steps, weights

P = problem()
SGD = optimizer()
STEPS, LR = 30, 0.02
ALIKE = P.start()[:1].expand(8, -1)


EXACT = {
    "choco-atc -> atc": (ChocoAtc(SGD, "identity", 1.0), DpsgdAtc(SGD)),
    "choco-awc -> awc": (ChocoAwc(SGD, "identity", 1.0), Dpsgd(SGD)),
    "deepsqueeze -> atc": (DeepSqueeze(SGD, "identity", 1.0), DpsgdAtc(SGD)),
    "beer -> gt-awc": (Beer(SGD, "identity", 1.0), TrackingAwc(SGD)),
}


@pytest.mark.parametrize("arrow", EXACT)
def test_without_compression_it_is_the_other_method(arrow):
    one, other = EXACT[arrow]
    walks = [weights(k, P.gradient, static("ring"), P.start(), STEPS, LR) for k in (one, other)]
    torch.testing.assert_close(*walks, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [Dcd, Ecd])
def test_dcd_and_ecd_without_compression_are_dpsgd(kind):
    walks = [
        weights(k, P.gradient, static("ring"), ALIKE, STEPS, LR)
        for k in (kind(SGD, "identity"), Dpsgd(SGD))
    ]
    torch.testing.assert_close(*walks, rtol=1e-12, atol=1e-12)


def test_ecd_follows_the_published_recursion():
    w, keys = torch.from_numpy(static("ring")(0).toarray()), torch.zeros(8, dtype=torch.int64)
    c, x, estimate = operator("int8:2"), ALIKE, ALIKE
    walk = weights(Ecd(SGD, "int8:2"), P.gradient, static("ring"), ALIKE, STEPS, LR)
    for t, found in enumerate(walk, start=1):
        x_next = w @ estimate - LR * P.at(x)
        z = (1 - t / 2) * x + t / 2 * x_next
        estimate = (1 - 2 / t) * estimate + 2 / t * compressed(c, z, keys)
        x = x_next
        torch.testing.assert_close(found, x, rtol=1e-11, atol=1e-11)


OPERATORS = (
    "top-k:2",
    "random-k:2",
    "sign",
    "qsgd:4",
    "int4:4",
    "fp4",
    "two-bit:6",
    "dct:3:1",
    "low-rank:1",
)


@pytest.mark.parametrize("spec", OPERATORS)
@pytest.mark.parametrize("kind", [ChocoAtc, ChocoAwc, DeepSqueeze, Dcd])
def test_the_mean_moves_by_the_mean_gradient_whatever_is_left_out(kind, spec):
    x, algorithm = ALIKE, kind(SGD, compressor=spec)
    for state in steps(algorithm, P.gradient, static("ring"), ALIKE, 10, LR):
        if kind is not Dcd:  # which moves by what it sends
            expected = x.mean(0) - LR * P.at(x).mean(0)
            torch.testing.assert_close(state.x.mean(0), expected, rtol=0, atol=1e-12)
        x = state.x
        assert x.isfinite().all()


def test_estimates_are_what_the_neighbours_know():
    w = torch.from_numpy(static("ring")(0).toarray())
    for kind in (ChocoAtc, ChocoAwc, Beer):
        last = end(kind(SGD, "top-k:2"), P.gradient, static("ring"), P.start(), 40, LR)
        rows = last.rows
        torch.testing.assert_close(rows["neighbours"], w @ rows["estimate"], rtol=0, atol=1e-11)
    exact = end(Dcd(SGD, "qsgd:4"), P.gradient, static("ring"), ALIKE, 40, LR)
    torch.testing.assert_close(exact.rows["neighbours"], w @ exact.x, rtol=0, atol=1e-11)


def test_the_trackers_of_beer_have_the_mean_gradient():
    for state in steps(Beer(SGD, "top-k:2"), P.gradient, static("ring"), P.start(), 40, LR / 4):
        gap = state.rows["tracker"].mean(0) - state.rows["gradient"].mean(0)
        assert gap.abs().max() < 1e-11


def test_beer_ends_at_the_minimum_of_the_mean_though_it_compresses():
    """A scalar with half of the messages drawn away: C is 0 or x."""
    x = end(Beer(SGD, "int4:1", 0.5), *flat(500)).x
    h, c, _ = scalar()
    assert (x - (h * c).sum() / h.sum()).abs().max() < 1e-5


def flat(count):
    problem_ = scalar()[2]
    return problem_.gradient, static("ring"), problem_.start(), count, 0.05


def nothing(x):
    return Gradients(torch.zeros_like(x), x.sum(1))


def test_choco_comes_to_the_mean_where_gossip_of_compressed_weights_does_not():
    start, mean = P.start(), P.start().mean(0)
    x = end(ChocoAtc(SGD, "top-k:1", 0.1), nothing, static("ring"), start, 900, 0.0).x
    assert (x - mean).abs().max() < 1e-3

    w, top = torch.from_numpy(static("ring")(0).toarray()), operator("top-k:2")
    keys = torch.zeros(8, dtype=torch.int64)
    stalls, loses = start.clone(), start.clone()
    for _ in range(200):
        stalls = stalls + (w - torch.eye(8)) @ compressed(top, stalls, keys)
        loses = w @ compressed(top, loses, keys)
    assert (stalls.mean(0) - mean).abs().max() < 1e-12
    assert (stalls - mean).abs().max() > 0.05, "without a memory"
    assert (loses.mean(0) - mean).abs().max() > 0.05, "without one's own weights"


def test_deepsqueeze_leaves_learners_as_far_apart_as_its_errors():
    spread = {}
    for spec in ("identity", "top-k:3"):
        x = end(DeepSqueeze(SGD, spec, 0.1), nothing, static("ring"), P.start(), 300, 0.0).x
        spread[spec] = float((x - x.mean(0)).abs().max())
    assert spread["identity"] < 1e-2
    assert spread["top-k:3"] > 0.02


def test_choco_follows_the_published_recursion():
    w = torch.from_numpy(static("ring")(0).toarray())
    top, keys = operator("top-k:2"), torch.zeros(8, dtype=torch.int64)
    x, estimate = ALIKE, ALIKE
    algorithm = ChocoAtc(SGD, "top-k:2", 0.3)
    state = algorithm.init(ALIKE[0], 8)
    comm = Stacked(8)
    for t in range(STEPS):
        h = x - LR * P.at(x)
        estimate = estimate + compressed(top, h - estimate, keys)
        x = h + 0.3 * (w @ estimate - estimate)
        state, _ = algorithm.step(state, P.gradient, static("ring")(t), lambda *_: LR, comm)
        torch.testing.assert_close(state.x, x, rtol=1e-12, atol=1e-12)


def test_choco_awc_follows_the_published_recursion():
    w, keys = torch.from_numpy(static("ring")(0).toarray()), torch.zeros(8, dtype=torch.int64)
    top, x = operator("top-k:2"), P.start()
    estimate = torch.zeros_like(x)
    walk = weights(ChocoAwc(SGD, "top-k:2", 0.3), P.gradient, static("ring"), P.start(), STEPS, LR)
    for found in walk:
        estimate = estimate + compressed(top, x - estimate, keys)
        x = x - LR * P.at(x) + 0.3 * (w @ estimate - estimate)
        torch.testing.assert_close(found, x, rtol=1e-11, atol=1e-11)


def test_dcd_follows_the_published_recursion():
    w, keys = torch.from_numpy(static("ring")(0).toarray()), torch.zeros(8, dtype=torch.int64)
    c, x = operator("int8:2"), ALIKE
    for found in weights(Dcd(SGD, "int8:2"), P.gradient, static("ring"), ALIKE, STEPS, LR):
        x = x + compressed(c, w @ x - LR * P.at(x) - x, keys)
        torch.testing.assert_close(found, x, rtol=1e-11, atol=1e-11)


def test_beer_follows_the_published_recursion():
    """Algorithm 1 of the paper, from x^0 with h^0 = 0: corrections leave before the gradient."""
    w, keys = torch.from_numpy(static("ring")(0).toarray()), torch.zeros(8, dtype=torch.int64)
    top, x = operator("top-k:2"), P.start()
    h, v, g, before = (torch.zeros_like(x) for _ in range(4))
    walk = weights(Beer(SGD, "top-k:2", 0.3), P.gradient, static("ring"), P.start(), STEPS, LR)
    for found in walk:
        h, g = h + compressed(top, x - h, keys), g + compressed(top, v - g, keys)
        v, before = v + 0.3 * (w @ g - g) + P.at(x) - before, P.at(x)
        x = x + 0.3 * (w @ h - h) - LR * v
        torch.testing.assert_close(found, x, rtol=1e-11, atol=1e-11)


def test_deepsqueeze_follows_the_published_recursion():
    w = torch.from_numpy(static("ring")(0).toarray())
    top, keys = operator("top-k:2"), torch.zeros(8, dtype=torch.int64)
    x, error = P.start(), torch.zeros_like(P.start())
    algorithm = DeepSqueeze(SGD, "top-k:2", 0.3)
    for found in weights(algorithm, P.gradient, static("ring"), P.start(), STEPS, LR):
        stepped = x - LR * P.at(x)
        sent = compressed(top, stepped + error, keys)
        x, error = stepped + 0.3 * (w @ sent - sent), stepped + error - sent
        torch.testing.assert_close(found, x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", [ChocoAtc, ChocoAwc, Beer, DeepSqueeze])
def test_of_an_unbiased_operator_as_much_is_taken_as_contracts(kind):
    """Of unbiased random-k that is random-k, drawn from the same keys."""
    walks = [
        weights(kind(SGD, spec, 0.2), P.gradient, static("ring"), ALIKE, STEPS, LR)
        for spec in ("unbiased-random-k:2", "random-k:2")
    ]
    torch.testing.assert_close(*walks, rtol=1e-9, atol=1e-9)
    assert Dcd(SGD, "unbiased-random-k:2").operator == operator("unbiased-random-k:2")


def test_bytes_are_those_of_the_payload():
    comm = Stacked(8)
    algorithm = ChocoAtc(SGD, "sign")
    state = algorithm.init(P.start()[0], 8)
    algorithm.step(state, P.gradient, static("ring")(0), lambda *_: LR, comm)
    assert comm.traffic.bytes_sent_per_learner == 2 * (8 + 1)  # a double and six bits, two ways
    assert np.isclose(algorithm.share, 1 / 32, rtol=1e-4)
