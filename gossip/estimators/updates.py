"""Around an update: measurements for a damper, damped rates, gradients put in their place."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from gossip.engines import Engine, MicroBatch, Sums, parts
from gossip.estimators.course import Update
from gossip.streams import PROBE, generator

JUDGED_AT_ONCE = 1024
"""Samples of a forward pass that no gradient is taken of."""
ON_THE_SET = frozenset({"training_loss", "training_gradient_square"})
"""What a damper can see of the training set at the present weights; the rest is of a batch."""


class Updates:
    """Something to iterate over that begins a new epoch each time."""

    def __init__(self, begin: Callable[[], Iterator[Update]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Update]:
        return self._begin()


def numbers(population: int, share: float, seed: int, update: int) -> np.ndarray:
    """Samples that stand for the training set before an update: all N, or a share of them."""
    if share >= 1:
        return np.arange(population)
    size = max(1, round(share * population))
    probe = generator(seed, PROBE, update)
    return np.sort(probe.choice(population, size, replace=False))


def on_the_set(
    engine: Engine, weights: Mapping[str, Tensor], fields: frozenset[str], samples: np.ndarray
) -> dict[str, Any]:
    """F(w), the mean loss over samples, and ||grad F(w)||^2, as far as they are asked for.

    Args:
        engine: who computes them.
        weights: w, of the module.
        fields: of `ON_THE_SET`.
        samples: their numbers, [m].
    """
    found: dict[str, Any] = {}
    batch = [MicroBatch(part) for part in parts(samples, JUDGED_AT_ONCE)]
    if "training_gradient_square" in fields:
        total = engine.gradient(weights, batch)
        square = sum(float(g.double().square().sum()) for g in total.gradient.values())
        found["training_gradient_square"] = square / total.samples**2
    if "training_loss" in fields:
        total = engine.loss(weights, batch)
        found["training_loss"] = total.loss / total.samples
    return found


@contextmanager
def damped_rates(optimizer: Optimizer, factor: float) -> Iterator[float]:
    """In this block the learning rates are `factor` times as large; gives that of the first group.

    Only in the step itself, so that whoever schedules rates finds his own.
    """
    groups = optimizer.param_groups
    rates = [group["lr"] for group in groups]
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate * factor
    try:
        yield float(groups[0]["lr"])
    finally:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate


def put(module: nn.Module, total: Sums) -> None:
    """Mean gradients of a batch to where an optimizer looks for them, and its running statistics.

    Args:
        module: with the weights that the sums were taken at.
        total: sums over the samples of the batch.
    """
    for name, parameter in module.named_parameters():
        if name in total.gradient:
            gradient = total.gradient[name].to(parameter.device) / total.samples
            parameter.grad = gradient.to(parameter.dtype)
    for name, buffer in module.named_buffers():
        value = total.buffers[name]
        buffer.copy_(value / total.samples if buffer.is_floating_point() else value)
