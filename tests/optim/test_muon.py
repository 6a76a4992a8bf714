"""Muon: its orthogonal factor, torch's Muon on matrices, torch's AdamW on vectors."""

import numpy as np
import pytest
import torch

from gossip.optim import Muon
from gossip.optim.muon import orthogonal
from tests.optim.problem import RNG, run

W = RNG.standard_normal((6, 4))
GRADIENTS = RNG.standard_normal((12, 6, 4))
RATES = np.linspace(0.1, 0.01, 12)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (1, 7)])
def test_it_keeps_singular_vectors_and_brings_values_near_one(shape):
    g = torch.from_numpy(RNG.standard_normal(shape))
    u, _, vt = torch.linalg.svd(g, full_matrices=False)
    inner = u.T @ orthogonal(g) @ vt.T
    torch.testing.assert_close(inner, torch.diag(inner.diagonal()), rtol=0, atol=1e-9)
    assert (inner.diagonal() > 0.6).all()
    assert (inner.diagonal() < 1.3).all()


def test_the_values_are_those_of_the_quintic():
    """Of an orthogonal matrix all stay alike; of 1x1 it is the sign but for the same factor."""
    x = 1 / np.sqrt(5)
    q, _ = torch.linalg.qr(torch.from_numpy(RNG.standard_normal((5, 5))))
    for _ in range(5):
        x = 3.4445 * x - 4.775 * x**3 + 2.0315 * x**5
    torch.testing.assert_close(orthogonal(q), x * q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e6])
def test_the_size_of_the_gradient_is_nothing_to_it(scale):
    step = lambda c: run(Muon, W, c * GRADIENTS, RATES)  # noqa: E731
    np.testing.assert_allclose(step(scale), step(1.0), rtol=1e-9)
    assert not orthogonal(torch.zeros(3, 2)).any()


def test_on_matrices_it_is_torchs_but_for_bfloat16():
    ours = run(Muon, W, GRADIENTS, RATES, weight_decay=0.1)
    options = {"weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    theirs = run(torch.optim.Muon, W, GRADIENTS, RATES, **options)
    moved = np.abs(theirs - W).max()
    assert np.abs(ours - theirs).max() < 0.03 * moved


def test_on_vectors_it_is_adamw():
    options = {"betas": (0.9, 0.95), "weight_decay": 0.1}
    ours = run(Muon, W[0], GRADIENTS[:, 0], RATES, **options)
    np.testing.assert_allclose(
        ours, run(torch.optim.AdamW, W[0], GRADIENTS[:, 0], RATES, **options), rtol=1e-11
    )


def test_a_kernel_is_a_matrix_of_its_outputs():
    kernel, g = RNG.standard_normal((3, 2, 2, 2)), RNG.standard_normal((4, 3, 2, 2, 2))
    flat = run(Muon, kernel.reshape(3, 8), g.reshape(4, 3, 8), RATES[:4])
    np.testing.assert_allclose(run(Muon, kernel, g, RATES[:4]).reshape(3, 8), flat, rtol=1e-12)


@pytest.mark.parametrize("options", [{"momentum": 1.0}, {"betas": (0.9, 1.0)}, {"lr": -1.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match="must"):
        Muon([torch.nn.Parameter(torch.ones(2, 2))], **options)
