"""Every optimizer on flat rows is one torch optimizer per learner."""

import pytest
import torch

from gossip.optim import OPTIMIZERS, FlatOptimizer
from gossip.task import Layer
from tests.problems import optimizer

LAYERS = (Layer("w", 0, 12, torch.Size((3, 4))), Layer("b", 12, 15, torch.Size((3,))))
ROWS, STEPS = 4, 8


def reference(name: str, start: torch.Tensor, gradients: list[torch.Tensor], lr: float, **options):
    """One torch optimizer per learner, over parameters in their own shapes."""
    kind = OPTIMIZERS[name]
    rows = []
    for j in range(ROWS):
        parts = [
            torch.nn.Parameter(start[j, layer.start : layer.stop].view(layer.shape).clone())
            for layer in LAYERS
        ]
        learner = kind.make(parts, lr=lr, **{**kind.defaults, **options})
        for g in gradients:
            for part, layer in zip(parts, LAYERS, strict=True):
                part.grad = g[j, layer.start : layer.stop].view(layer.shape)
            learner.step()
        rows.append(torch.cat([part.detach().reshape(-1) for part in parts]))
    return torch.stack(rows)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_flat_rows_are_one_optimizer_per_learner(name, weight_decay):
    generator = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(ROWS, 15, generator=generator, dtype=torch.float64)  # noqa: E731
    start, gradients = draw(), [draw() for _ in range(STEPS)]
    x, flat = start.clone(), optimizer(name, LAYERS, weight_decay=weight_decay)()
    for g in gradients:
        x = flat.step(x, g, 0.05)
    expected = reference(name, start, gradients, 0.05, weight_decay=weight_decay)
    torch.testing.assert_close(x, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_rate_per_layer_is_that_rate_for_the_layers_columns(name):
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(ROWS, 15, generator=generator, dtype=torch.float64)
    gradients = [torch.randn_like(start) for _ in range(STEPS)]
    x, flat = start.clone(), optimizer(name, LAYERS)()
    for g in gradients:
        x = flat.step(x, g, torch.tensor([0.05, 0.2]))
    for layer, lr in zip(LAYERS, (0.05, 0.2), strict=True):
        columns = slice(layer.start, layer.stop)
        expected = reference(name, start, gradients, lr)[:, columns]
        torch.testing.assert_close(x[:, columns], expected, rtol=1e-6, atol=1e-7)


def test_a_step_writes_neither_weights_nor_gradients():
    x, g = torch.ones(2, 15), torch.ones(2, 15)
    FlatOptimizer(lambda p: torch.optim.SGD(p, lr=1.0), LAYERS).step(x, g, 0.1)
    assert torch.equal(x, torch.ones(2, 15))
    assert torch.equal(g, torch.ones(2, 15))


def test_the_rate_of_each_step_is_the_one_given():
    flat = optimizer("sgd", LAYERS)()
    x, g = torch.zeros(1, 15), torch.ones(1, 15)
    for lr in (0.5, 0.0, 0.25):
        torch.testing.assert_close(flat.step(x, g, lr), torch.full((1, 15), -lr))
