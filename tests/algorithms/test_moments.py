"""What optimizers keep, averaged: special cases, Adam's second moment, bytes."""

import pytest
import torch

import topologies
from gossip.algorithms import DpsgdAtc, Ssgd
from gossip.algorithms.moments import MixedState, averaged
from gossip.algorithms.momentum import MixedMomentum
from gossip.algorithms.outer import Outer
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Rate
from gossip.study.parts import pattern
from gossip.task.layers import Layer
from tests.problems import optimizer
from tests.quadratics import begin, problem, static, weights

P = problem()
LR, STEPS = 0.02, 12
ALIKE = P.start()[:1].expand(8, -1)
RING, ALL = static("ring"), static("complete")
MOMENTUM, ADAM = optimizer(momentum=0.9), optimizer("adam")


def walk(algorithm, w, start):
    return weights(algorithm, P.gradient, w, start, STEPS, LR)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_without_moments_it_is_atc():
    plain = optimizer()
    same(walk(MixedState(plain), RING, P.start()), walk(DpsgdAtc(plain), RING, P.start()))


def test_the_buffer_of_momentum_averaged_is_mixed_momentum():
    mixed = walk(MixedMomentum(optimizer(), 0.9), RING, P.start())
    same(walk(MixedState(MOMENTUM), RING, P.start()), mixed)


def test_rounds_of_one_step_with_averaged_momentum_are_ssgd():
    """Which they are with local momentum too, but not with Adam's moments."""
    comm, algorithm = Stacked(8), Ssgd(MOMENTUM)
    state = algorithm.init(ALIKE[0], 8)
    for rows in walk(Outer(MOMENTUM, 1, moments="mean"), ALL, ALIKE):
        state, _ = algorithm.step(state, P.gradient, ALL(0), lambda *_: LR, comm)
        same(rows, state.x.expand(8, -1))


def test_adams_second_moment_is_the_mean_of_squares():
    """Above the square of the mean by (1 - beta_2) times the variance of the gradients."""
    algorithm = MixedState(ADAM)
    state = begin(algorithm, ALIKE)
    gradients = P.gradient(ALIKE).values
    state, _ = algorithm.step(state, P.gradient, ALL(0), lambda *_: LR, Stacked(8))
    moments = state.optimizer.moments()
    m, v = moments["exp_avg"], moments["exp_avg_sq"]
    same(m, 0.1 * gradients.mean(0).expand(8, -1))
    variance = gradients.var(0, correction=0)
    same(v, 0.001 * (gradients.mean(0).square() + variance).expand(8, -1))


def test_local_adam_has_the_same_moments_everywhere_at_the_end_of_a_round():
    algorithm = Outer(ADAM, 3, moments="mean")
    state, comm = begin(algorithm, ALIKE), Stacked(8)
    for t in range(1, 7):
        state, _ = algorithm.step(state, P.gradient, ALL(0), lambda *_: LR, comm)
        alike = all(torch.equal(m, m[:1].expand_as(m)) for m in state.optimizer.moments().values())
        assert alike == (t % 3 == 0)
    assert comm.traffic.bytes_sent_per_learner == 2 * (2 * 7 / 8) * 3 * 8 * P.d
    assert algorithm.pattern[1].phase.rows == 3


def test_a_message_has_the_moments():
    comm, algorithm = Stacked(8), MixedState(ADAM)
    algorithm.step(begin(algorithm, ALIKE), P.gradient, RING(0), lambda *_: LR, comm)
    assert comm.traffic.bytes_sent_per_learner == 2 * 3 * 8 * P.d
    assert algorithm.pattern[1].rows == 3


LAYERS = (Layer("w", 0, 6, torch.Size((2, 3))), Layer("b", 6, 8, torch.Size((2,))))


@pytest.mark.parametrize(
    ("name", "options", "kept"),
    [
        ("sgd", {}, 0),
        ("sgd", {"momentum": 0.9}, 1),
        ("adam", {}, 2),
        ("lars", {}, 1),
        ("muon", {}, (6 + 2 * 2) / 8),
    ],
)
def test_how_many_numbers_an_optimizer_keeps_of_a_weight(name, options, kept):
    assert optimizer(name, LAYERS, **options)().kept_per_weight == kept


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_moments_of_layers_are_averaged_in_their_shapes(name):
    made = optimizer(name, LAYERS)()
    x, g = torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    made.step(x, g, 0.1)
    w = topologies.build("complete", 3).matrix(0)
    before = made.moments()
    expected = {k: rows.mean(0).expand_as(rows).clone() for k, rows in before.items()}
    averaged(x, made, lambda rows: Stacked(3).start_mix(rows, w)())
    for key, rows in made.moments().items():
        same(rows, expected[key])


@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_the_simulator_is_told_of_the_moments(name):
    """It asks before there is a model."""
    config = Config(
        gossip=Averaging(algorithm_options=("moments=mean",)),
        algorithm=("local-sgd",),
        rate=Rate(optimizer=name),
    )
    assert pattern("local-sgd", config)[1].phase.rows == 3
    assert pattern("mixed-state", config)[1].rows == 3
