"""LAMB by hand, by its invariances, against torch's Adam and against torch-optimizer."""

import numpy as np
import pytest
import torch
import torch_optimizer

from gossip.optim import Lamb
from tests.optim.problem import G1, G2, RATES, RNG, W, run

GRADIENTS = RNG.standard_normal((20, 3, 4))
SCHEDULE = np.linspace(0.1, 0.01, 20)


@pytest.mark.parametrize("correct", [False, True])
def test_two_steps_of_lamb_by_hand(correct):
    beta1, beta2, eps, decay, clip = 0.8, 0.95, 1e-3, 0.1, 2.0
    w, m, v = W, 0 * W, 0 * W
    for t, (g, lr) in enumerate(zip((G1, G2), RATES, strict=True), start=1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        fix1, fix2 = (1 - beta1**t, 1 - beta2**t) if correct else (1, 1)
        u = (m / fix1) / (np.sqrt(v / fix2) + eps) + decay * w
        assert np.linalg.norm(w) > clip
        w = w - lr * clip / np.linalg.norm(u) * u
    options = {"betas": (beta1, beta2), "eps": eps, "weight_decay": decay, "clip": clip}
    found = run(Lamb, W, [G1, G2], RATES, **options, bias_correction=correct)
    np.testing.assert_allclose(found, w, rtol=1e-13)


def test_the_defaults_of_lamb_are_those_of_the_paper():
    u = 0.1 * G1 / (np.sqrt(0.001 * G1**2) + 1e-6)
    expected = W - 0.5 * np.linalg.norm(W) / np.linalg.norm(u) * u
    np.testing.assert_allclose(run(Lamb, W, [G1], [0.5]), expected, rtol=1e-13)


@pytest.mark.parametrize("c", [1e-3, 7.0, 1e30])
@pytest.mark.parametrize("correct", [False, True])
def test_the_size_of_the_gradient_is_nothing_to_lamb(c, correct):
    step = lambda c: run(Lamb, W, c * GRADIENTS, SCHEDULE, eps=0.0, bias_correction=correct)  # noqa: E731
    np.testing.assert_allclose(step(c), step(1.0), rtol=1e-11)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_with_a_ratio_of_one_is_adamw(decay):
    options = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": decay}
    found = run(Lamb, W, GRADIENTS, SCHEDULE, **options, clip=0.0, bias_correction=True)
    adam = run(torch.optim.AdamW, W, GRADIENTS, SCHEDULE, **options)
    np.testing.assert_allclose(found, adam, rtol=1e-12)


def test_lamb_with_a_ratio_of_one_is_adam_without_bias_correction():
    # Torch's Adam corrects by a factor of the rate when eps = 0; the rates here take it back.
    t = np.arange(1, 21)
    factor = np.sqrt(1 - 0.95**t) / (1 - 0.8**t)
    options = {"betas": (0.8, 0.95), "eps": 0.0}
    found = run(Lamb, W, GRADIENTS, SCHEDULE, **options, clip=0.0)
    adam = run(torch.optim.Adam, W, GRADIENTS, SCHEDULE / factor, **options)
    np.testing.assert_allclose(found, adam, rtol=1e-12)


def test_a_step_of_lamb_has_the_length_of_the_weights():
    for shape in [(3, 4), (4,), (2, 3, 2, 2)]:
        w, g = RNG.standard_normal(shape), RNG.standard_normal(shape)
        length = np.linalg.norm(run(Lamb, w, [g], [0.1], weight_decay=0.1) - w)
        assert length == pytest.approx(0.1 * np.linalg.norm(w), rel=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_zero_weights_take_adams_step(decay):
    u = 0.1 * G1 / (np.sqrt(0.001 * G1**2) + 1e-6)
    found = run(Lamb, 0 * W, [G1], [0.5], weight_decay=decay)
    np.testing.assert_allclose(found, -0.5 * u, rtol=1e-13)


def test_without_gradient_and_decay_lamb_rests():
    np.testing.assert_array_equal(run(Lamb, W, [0 * W], [0.5]), W)


@pytest.mark.parametrize("clip", [0.0, 2.0, 10.0])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_is_torch_optimizers_lamb(decay, clip):
    # Only without bias correction: theirs corrects the rate, and so the decay and the ratio too.
    options = {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": decay}
    ours = run(Lamb, W, GRADIENTS, SCHEDULE, **options, clip=clip)
    theirs = run(torch_optimizer.Lamb, W, GRADIENTS, SCHEDULE, **options, clamp_value=clip)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("option", "value"),
    [("lr", -1.0), ("eps", -1.0), ("weight_decay", -1.0), ("clip", float("nan"))],
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(ValueError, match=f"{option} is {value}"):
        Lamb([torch.nn.Parameter(torch.zeros(1))], **{"lr": 1.0, option: value})


@pytest.mark.parametrize("betas", [(1.0, 0.9), (0.9, -0.1)])
def test_impossible_betas_are_refused(betas):
    with pytest.raises(ValueError, match="betas are"):
        Lamb([torch.nn.Parameter(torch.zeros(1))], lr=1.0, betas=betas)
