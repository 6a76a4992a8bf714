"""Perceptrons of many learners in one pass: the gradients of the loop, and no other model's."""

import numpy as np
import pytest
import torch
from torch import nn

from gossip.models import mlp, softmax
from gossip.task.layers import layer_squares
from tests.problems import digits_task

LOCAL, BATCH = 3, 4
ACTIVATIONS = (
    nn.ReLU(inplace=True), nn.Tanh(), nn.GELU(), nn.ELU(), nn.Softplus(), nn.SiLU(), nn.Sigmoid()
)  # fmt: skip


def net(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), *layers, nn.Linear(6, 10, bias=False))


MODELS = {
    "mlp": lambda *_: mlp((8, 8), 10, widths=(6, 5)),
    "softmax": lambda *_: softmax((8, 8), 10),
    "rows of a picture": lambda *_: nn.Sequential(
        nn.Linear(8, 5), nn.Tanh(), nn.Flatten(), nn.Linear(40, 10)
    ),
    **{type(each).__name__: lambda *_, act=each: net(act) for each in ACTIVATIONS},
}


def rows_and_batch(task):
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(LOCAL, task.d, generator=generator, dtype=torch.float64)
    x = task.init(0) + 0.05 * noise
    return x, *task.train.batch(np.arange(LOCAL * BATCH).reshape(LOCAL, BATCH))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            assert one is other
        else:
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_one_row_after_the_other(name):
    task, loop = digits_task(MODELS[name]), digits_task(MODELS[name], engine="loop")
    assert task.engine == "perceptrons"
    x, inputs, labels = rows_and_batch(task)
    assert_same(task.gradient(x, inputs, labels), loop.gradient(x, inputs, labels))
    scaled = task.gradient(x, inputs, labels, scale=2.0**10)
    assert_same(scaled, loop.gradient(x, inputs, labels))
    samples = np.arange(50)
    assert_same(
        [task.gradient_sum(x[0], task.train, samples)[0]],
        [loop.gradient_sum(x[0], loop.train, samples)[0]],
    )


@pytest.mark.parametrize("squares", [False, True])
def test_a_row_that_stands_for_all_learners_has_the_mean_of_their_gradients(squares):
    task = digits_task(MODELS["mlp"])
    x, inputs, labels = rows_and_batch(task)
    shared = task.gradient(x[:1], inputs, labels, squares=squares)
    each = task.gradient(x[:1].repeat(LOCAL, 1), inputs, labels)
    torch.testing.assert_close(shared.values[0], each.values.mean(dim=0), rtol=1e-12, atol=1e-14)
    if squares:
        expected = layer_squares(each.values, task.layers).mean(dim=0)
        torch.testing.assert_close(shared.squares[0], expected, rtol=1e-12, atol=0)


class Twice(nn.Sequential):
    """Uses a linear map twice."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 6), nn.Linear(6, 6), nn.Linear(6, 10))

    def forward(self, x):
        first, again, last = self[1], self[2], self[3]
        return last(again(torch.tanh(again(torch.tanh(first(self[0](x)))))))


class Shifted(nn.Sequential):
    """Adds a parameter, whose learners' dimension would be taken for the samples'."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.shift = nn.Parameter(torch.ones(10))

    def forward(self, x):
        return super().forward(x) + self.shift


class Summed(nn.Sequential):
    """Takes a mean over what for a single learner is the dimension of the samples."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        y = super().forward(x)
        return y - y.mean(dim=0)


@pytest.mark.parametrize(
    "build",
    [
        Twice,
        Shifted,
        Summed,
        lambda: net(nn.LayerNorm(6)),
        lambda: net(nn.PReLU()),
        lambda: net(nn.Softmax(dim=1)),
        lambda: net(nn.Linear(6, 6).requires_grad_(requires_grad=False)),
        lambda: nn.Sequential(nn.Conv1d(8, 2, 3), nn.Flatten(), nn.Linear(12, 10)),
    ],
)
def test_other_models_are_left_to_the_others(build):
    task, loop = (digits_task(lambda *_: build(), engine=e) for e in ("auto", "loop"))
    assert task.engine != "perceptrons"
    x, inputs, labels = rows_and_batch(task)
    assert_same(task.gradient(x, inputs, labels)[:2], loop.gradient(x, inputs, labels)[:2])
