"""Every optimizer on flat rows is one torch optimizer per learner."""

from functools import partial

import pytest
import torch

from gossip.errors import UserError
from gossip.optim import OPTIMIZERS
from gossip.optim.flat import FlatOptimizer
from gossip.task.layers import Layer
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


PER_LAYER = torch.tensor([0.05, 0.2], dtype=torch.float64)
PER_ROW_AND_LAYER = torch.linspace(0.02, 0.3, 2 * ROWS, dtype=torch.float64).view(ROWS, 2)


def run(name: str, start: torch.Tensor, gradients: list[torch.Tensor], lr) -> torch.Tensor:
    x, flat = start, optimizer(name, LAYERS, weight_decay=0.01)()
    for g in gradients:
        x = flat.step(x, g, lr)
    return x


def problem() -> tuple[torch.Tensor, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    draw = lambda: torch.randn(ROWS, 15, generator=generator, dtype=torch.float64)  # noqa: E731
    return draw(), [draw() for _ in range(STEPS)]


@pytest.mark.parametrize("lr", [0.05, PER_LAYER, PER_ROW_AND_LAYER], ids=["one", "layer", "row"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_stepped_together_are_rows_stepped_alone(name, lr):
    start, gradients = problem()
    together = run(name, start, gradients, lr)
    for j in range(ROWS):
        own = lr[j] if lr is PER_ROW_AND_LAYER else lr
        alone = run(name, start[j : j + 1], [g[j : j + 1] for g in gradients], own)
        torch.testing.assert_close(together[j : j + 1], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_equal_rates_are_the_number(name):
    start, gradients = problem()
    number = run(name, start, gradients, 0.05)
    for shape in [(), (2,), (ROWS, 2)]:
        x = run(name, start, gradients, torch.full(shape, 0.05, dtype=torch.float64))
        torch.testing.assert_close(x, number, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lr", [0.1, PER_LAYER, PER_ROW_AND_LAYER], ids=["one", "layer", "row"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_writes_neither_weights_nor_gradients(name, lr):
    x, g = torch.ones(ROWS, 15), torch.ones(ROWS, 15)
    optimizer(name, LAYERS, weight_decay=0.01)().step(x, g, lr)
    assert torch.equal(x, torch.ones(ROWS, 15))
    assert torch.equal(g, torch.ones(ROWS, 15))


@pytest.mark.parametrize("lr", [0.1, PER_LAYER, PER_ROW_AND_LAYER], ids=["one", "layer", "row"])
@pytest.mark.parametrize("name", ["lars", "larc", "lamb", "muon"])
def test_no_number_of_a_layer_is_read_back_from_the_device(name, lr):
    # A meta tensor has no numbers, so asking for one raises.
    x = torch.empty(ROWS, 15, device="meta")
    flat = optimizer(name, LAYERS, weight_decay=0.01)()
    for _ in range(2):
        x = flat.step(x, torch.empty_like(x), lr)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_rate_of_zero_moves_nothing(name):
    start, gradients = problem()
    lr = PER_ROW_AND_LAYER.clone()
    lr[1] = 0.0
    moved = run(name, start, gradients, lr) != start
    assert moved[[0, 2, 3]].all()
    assert not moved[1].any()


def test_the_rate_of_each_step_is_the_one_given():
    flat = optimizer("sgd", LAYERS)()
    x, g = torch.zeros(1, 15), torch.ones(1, 15)
    for lr in (0.5, 0.0, 0.25):
        torch.testing.assert_close(flat.step(x, g, lr), torch.full((1, 15), -lr))


@pytest.mark.parametrize("lr", [0.05, PER_LAYER, PER_ROW_AND_LAYER], ids=["one", "layer", "row"])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-7, 0.01])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_increment_added_elsewhere_is_the_same(name, weight_decay, lr):
    generator = torch.Generator().manual_seed(2)
    draw = lambda: torch.randn(ROWS, 15, generator=generator, dtype=torch.float64)  # noqa: E731
    x, start = draw(), draw()
    from_x, from_base, alone = (
        optimizer(name, LAYERS, weight_decay=weight_decay)() for _ in range(3)
    )
    for g in [draw() for _ in range(3)]:
        stepped = from_x.step(x, g, lr)
        moved = from_base.increment(x, g, lr)(start, torch.empty_like(x))
        torch.testing.assert_close(moved - start, stepped - x, rtol=1e-9, atol=1e-14)
        assert torch.equal(alone.increment(x, g, lr)(x, torch.empty_like(x)), stepped)
        x, start = stepped, draw()


class Clipped(torch.optim.SGD):
    """SGD of gradients that are at most 1 by element."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = parameter.grad.clamp(-1, 1)
        return super().step(closure)


@pytest.mark.parametrize(
    ("make", "plain"),
    [
        (torch.optim.SGD, True),
        (partial(torch.optim.SGD, foreach=True), True),
        (partial(torch.optim.SGD, momentum=0.9), False),
        (partial(torch.optim.SGD, weight_decay=1e-10), False),
        (partial(torch.optim.SGD, maximize=True), False),
        (torch.optim.Adam, False),
        (Clipped, False),
    ],
)
def test_plain_sgd_is_one_pass_and_every_other_optimizer_is_called(make, plain, monkeypatch):
    optimizer = FlatOptimizer(make, ())
    x, gradients = torch.zeros(2, 3), torch.tensor([[0.5, 8.0, -3.0]] * 2)
    own = torch.nn.Parameter(x.clone())
    own.grad = gradients.clone()
    make([own], lr=0.1).step()
    assert torch.equal(optimizer.step(x, gradients, 0.1), own.data)
    base, out = x + 1, torch.empty_like(x)
    fresh = FlatOptimizer(make, ()).increment(x, gradients, 0.1)(base, out)
    torch.testing.assert_close(fresh - base, own.data - x, rtol=0, atol=1e-6)
    assert (optimizer._optimizer is None) == plain


def test_plain_sgd_refuses_the_momentum_of_another_run():
    with pytest.raises(UserError, match="of another run"):
        FlatOptimizer(torch.optim.SGD, ()).restore({"momentum_buffer": torch.zeros(2, 3)})
