"""LARS and LARC by hand, by their invariances and against torch-optimizer."""

import numpy as np
import pytest
import torch
import torch_optimizer

from gossip.optim import Larc, Lars
from tests.optim.problem import G1, G2, RATES, RNG, W, run


def trust(w, g, decay, eta, eps=0.0):
    norm = np.linalg.norm
    return eta * norm(w) / (norm(g) + decay * norm(w) + eps)


@pytest.mark.parametrize("form", ["tf", "torch"])
def test_two_steps_of_lars_by_hand(form):
    decay, eta, eps, mu = 0.1, 0.02, 0.3, 0.8
    first = trust(W, G1, decay, eta, eps) * (G1 + decay * W)
    w = W - RATES[0] * first
    second = trust(w, G2, decay, eta, eps) * (G2 + decay * w)
    # The momentum of the first step travels at its own rate in TensorFlow's form.
    carried = mu * first * (RATES[0] if form == "tf" else RATES[1])
    expected = w - carried - RATES[1] * second
    options = {"trust_coefficient": eta, "eps": eps, "momentum": mu, "weight_decay": decay}
    found = run(Lars, W, [G1, G2], RATES, **options, momentum_form=form)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_defaults_of_lars_are_those_of_the_paper():
    expected = W - 0.5 * trust(W, G1, 1e-4, 0.001) * (G1 + 1e-4 * W)
    np.testing.assert_allclose(run(Lars, W, [G1], [0.5]), expected, rtol=1e-13)


def test_momentum_forms_agree_until_the_rate_changes():
    tf, torchs = (
        [run(Lars, W, [G1, G2], r, momentum_form=form) for r in [(0.5, 0.5), (0.5, 0.2)]]
        for form in ("tf", "torch")
    )
    np.testing.assert_allclose(tf[0], torchs[0], rtol=1e-13)
    assert np.abs(tf[1] - torchs[1]).max() > 1e-5


@pytest.mark.parametrize("c", [1e-30, 1e-3, 7.0, 1e30])
@pytest.mark.parametrize("options", [{}, {"momentum_form": "torch"}])
def test_the_size_of_the_gradient_is_nothing_to_lars(c, options):
    step = lambda c: run(Lars, W, [c * G1, c * G2], RATES, weight_decay=0.0, **options)  # noqa: E731
    np.testing.assert_allclose(step(c), step(1.0), rtol=1e-12)


def test_the_norms_of_tiny_float32_gradients_do_not_underflow():
    g = (1e-30 * G1).astype(np.float32)
    moved = run(Lars, W.astype(np.float32), [g], [1000.0], weight_decay=0.0)
    np.testing.assert_allclose(moved, run(Lars, W, [G1], [1000.0], weight_decay=0.0), rtol=1e-5)


def test_without_gradient_lars_decays_at_the_full_rate():
    found = run(Lars, W, [0 * W], [0.5], weight_decay=0.1)
    np.testing.assert_allclose(found, W - 0.5 * 0.1 * W, rtol=1e-13)


def test_zero_weights_leave_zero_at_the_full_rate():
    np.testing.assert_allclose(run(Lars, 0 * W, [G1], [0.5]), -0.5 * G1, rtol=1e-13)


@pytest.mark.parametrize("form", ["tf", "torch"])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_lars_gives_biases_and_scales_plain_momentum(form, shape):
    w, *gradients = (RNG.standard_normal(shape) for _ in range(3))
    found = run(Lars, w, gradients, [0.5, 0.5], weight_decay=0.1, momentum_form=form)
    sgd = run(torch.optim.SGD, w, gradients, [0.5, 0.5], momentum=0.9)
    np.testing.assert_allclose(found, sgd, rtol=1e-13)


def test_lars_is_torch_optimizers_lars():
    # Theirs: momentum as torch has it, and the ratio only with weight decay, for every shape.
    options = {"momentum": 0.8, "weight_decay": 0.1, "trust_coefficient": 0.02, "eps": 1e-8}
    gradients, rates = RNG.standard_normal((20, 3, 4)), np.linspace(2.0, 0.1, 20)
    ours = run(Lars, W, gradients, rates, **options, momentum_form="torch")
    theirs = run(torch_optimizer.LARS, W, gradients, rates, **options)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert np.abs(ours - W).max() > 0.1


@pytest.mark.parametrize("clip", [True, False])
def test_two_steps_of_larc_by_hand(clip):
    decay, eta, mu, rates = 0.1, 0.5, 0.8, (0.05, 10.0)

    def scaled(w, g, lr):
        ratio = trust(w, g, decay, eta, 1e-8)
        return (min(ratio / lr, 1.0) if clip else ratio) * (g + decay * w)

    first = scaled(W, G1, rates[0])
    w = W - rates[0] * first
    expected = w - rates[1] * (mu * first + scaled(w, G2, rates[1]))
    assert trust(W, G1, decay, eta) > rates[0]  # the first step is clipped,
    assert trust(w, G2, decay, eta) < rates[1]  # the second not
    options = {"trust_coefficient": eta, "momentum": mu, "weight_decay": decay, "clip": clip}
    np.testing.assert_allclose(run(Larc, W, [G1, G2], rates, **options), expected, rtol=1e-13)


def test_larc_with_a_small_rate_is_sgd():
    gradients, rates = RNG.standard_normal((20, 3, 4)), [1e-4] * 20
    options = {"momentum": 0.9, "weight_decay": 0.1}
    found = run(Larc, W, gradients, rates, **options)
    sgd = run(torch.optim.SGD, W, gradients, rates, **options)
    np.testing.assert_allclose(found, sgd, rtol=1e-13)


@pytest.mark.parametrize(("w", "g"), [(W, 0 * W), (0 * W, G1)])
def test_larc_leaves_layers_with_a_zero_norm_to_sgd_without_decay(w, g):
    found = run(Larc, w, [g], [0.5], weight_decay=0.1, eps=0.0)
    np.testing.assert_array_equal(found, w - 0.5 * g)


@pytest.mark.parametrize("option", ["lr", "momentum", "weight_decay", "trust_coefficient", "eps"])
@pytest.mark.parametrize("make", [Lars, Larc])
def test_negative_options_are_refused(make, option):
    with pytest.raises(ValueError, match=f"{option} is -1.0"):
        make([torch.nn.Parameter(torch.zeros(1))], **{"lr": 1.0, option: -1.0})


def test_an_unknown_form_of_momentum_is_refused():
    with pytest.raises(ValueError, match="momentum_form is 'keras': it must be tf or torch"):
        Lars([torch.nn.Parameter(torch.zeros(1))], lr=1.0, momentum_form="keras")


def test_a_closure_is_evaluated_with_gradients():
    w = torch.nn.Parameter(torch.tensor(W))
    optimizer = Lars([w], lr=0.5)

    def loss():
        value = w.square().sum() / 2
        value.backward()
        return value.item()

    assert optimizer.step(loss) == pytest.approx((W**2).sum() / 2)
    np.testing.assert_allclose(w.detach(), run(Lars, W, [W], [0.5]))
