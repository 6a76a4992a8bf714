"""Small problems with known answers, in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import Gradient
from gossip.comm.shutdown.stop import Decision, Request
from gossip.data import sources
from gossip.models import mlp
from gossip.optim import OPTIMIZERS, FlatOptimizer
from gossip.task import Gradients, Task
from gossip.task.layers import Layer


def complete(n: int) -> csr_array:
    return csr_array(np.full((n, n), 1 / n))


def ring(n: int) -> csr_array:
    if n < 3:
        return complete(n)
    w = sum(np.roll(np.eye(n), shift, axis=1) for shift in (-1, 0, 1)) / 3
    return csr_array(w)


def quadratic(d: int, n: int, *, seed: int = 0) -> tuple[Tensor, Tensor, Gradient]:
    """Losses x'Hx/2 - c_j'x with a common Hessian: H [d, d], c [n, d] and the gradient."""
    rng = np.random.default_rng(seed)
    a = torch.from_numpy(rng.standard_normal((d, d)))
    hessian = a @ a.T / d
    c = torch.from_numpy(rng.standard_normal((n, d)))

    def gradient(x: Tensor) -> Gradients:
        linear = c if len(x) == n else c.mean(dim=0, keepdim=True)
        hx = x @ hessian
        return Gradients(hx - linear, ((hx / 2 - linear) * x).sum(dim=1))

    return hessian, c, gradient


def optimizer(
    name: str = "sgd", layers: tuple[Layer, ...] = (), **options: object
) -> Callable[[], FlatOptimizer]:
    kind = OPTIMIZERS[name]
    make = partial(kind.make, lr=1.0, **{**kind.defaults, **options})
    return lambda: FlatOptimizer(make, layers, elementwise=kind.elementwise)


def batch_norm_net(input_shape: tuple[int, ...], num_classes: int) -> torch.nn.Module:
    """A small network whose gradient depends on who is in the mini-batch."""
    nn = torch.nn
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, num_classes)
    )


class ArraySamples:
    """Inputs and labels held in memory."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        return self.inputs[indices], self.labels[indices]


def digits(dtype: torch.dtype = torch.float64) -> ArraySamples:
    """The 1,797 handwritten 8x8 digits that come with scikit-learn, scaled to [0, 1]."""
    images, labels = sources.digits()
    return ArraySamples(
        torch.from_numpy(images / 16.0).to(dtype), torch.from_numpy(labels.astype(int))
    )


def digits_task(
    build: Callable[..., torch.nn.Module] = mlp,
    *,
    engine: str = "auto",
    dtype: torch.dtype = torch.float64,
    train: slice = slice(1400),
    test: slice = slice(1400, None),
    **options: object,
) -> Task:
    """The real digits, of which some are trained on, and a small model."""
    every = digits(dtype)
    return Task(
        partial(build, (8, 8), 10, **options),
        ArraySamples(every.inputs[train], every.labels[train]),
        ArraySamples(every.inputs[test], every.labels[test]),
        dtype=dtype,
        engine=engine,
    )


@dataclass(frozen=True)
class Agreed:
    """An agreement that is decided by a function of the step and this process's request."""

    decide: Callable[[int, Request], Decision]
    asks: Callable[[], bool] = lambda: False

    @property
    def pending(self) -> bool:
        return self.asks()
