r"""The arithmetic of all engines: sums over samples, which add up however they are split.

.. math::
    g = \frac{1}{B} \sum_{c} \sum_{i \in c} \nabla \ell_i(w)

over the parts c of a batch: each part's gradient is that of the *sum* of its losses, and only
whoever has all of them divides, by the number of all samples. So uneven splits are exact.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch.func import functional_call
from torch.linalg import vector_norm

from gossip.engines.problem import Problem
from gossip.errors import UserError
from gossip.streams import seeded
from gossip.task.overrun import FAULT, OverrunDetector

if TYPE_CHECKING:
    from gossip.engines.base import MicroBatch

_ONE_AT_A_TIME = Lock()
"""A module's parameters are replaced while it is called, and the workers of a process share it."""
_LOOKED_AT: WeakSet[Problem] = WeakSet()
"""Problems of which this process has looked at a training pass."""


class Sums(NamedTuple):
    """Sums over some samples."""

    gradient: dict[str, Tensor]
    """By parameter, of those that are trained; empty where none was asked for."""
    buffers: dict[str, Tensor]
    """Running statistics after a part's pass, times its samples; counters: the largest."""
    loss: float
    squares: float
    """sum over parts of n_c ||g_c||^2, g_c the mean gradient of the n_c samples of a part."""
    samples: int
    parts: int


def added(a: Sums, b: Sums) -> Sums:
    """The sums over the samples of both."""
    return Sums(
        {name: value + b.gradient[name] for name, value in a.gradient.items()},
        {name: _joined(value, b.buffers[name]) for name, value in a.buffers.items()},
        a.loss + b.loss,
        a.squares + b.squares,
        a.samples + b.samples,
        a.parts + b.parts,
    )


def _grown(a: Sums, b: Sums) -> Sums:
    """Both, in the memory of a's gradient."""
    for name, value in b.gradient.items():
        a.gradient[name].add_(value)
    return added(a._replace(gradient={}), b)._replace(gradient=a.gradient)


def gradient_sums(
    problem: Problem, weights: Mapping[str, Tensor], batch: Sequence["MicroBatch"]
) -> Sums:
    """Training passes over the parts of a batch, one after the other, added up.

    Args:
        problem: module, loss and data.
        weights: parameters and buffers by name, as in `state_dict()`; left as they are.
        batch: at least one part.
    """
    with _ONE_AT_A_TIME:
        problem.module.train()
        total = _trained(problem, weights, batch[0])
        for k, part in enumerate(batch[1:]):
            own = _trained(problem, weights, part)
            # The first gradient's tensors may be one memory, which autograd is free to give.
            total = _grown(total, own) if k else added(total, own)
    return total


def loss_sums(
    problem: Problem, weights: Mapping[str, Tensor], batch: Sequence["MicroBatch"]
) -> Sums:
    """The loss of the module as it is judged (`eval()`), over the parts one after the other."""
    with _ONE_AT_A_TIME, torch.no_grad():
        problem.module.eval()
        losses = [_loss(problem, dict(weights), part) for part in batch]
    counts = [len(part.indices) for part in batch]
    total = sum(float(loss) * n for loss, n in zip(losses, counts, strict=True))
    return Sums({}, {}, total, 0.0, sum(counts), len(counts))


def _trained(problem: Problem, weights: Mapping[str, Tensor], part: "MicroBatch") -> Sums:
    n = len(part.indices)
    names = [name for name, p in problem.module.named_parameters() if p.requires_grad]
    trained = {name: weights[name].detach().clone().requires_grad_() for name in names}
    # Of its own, since BatchNorm writes to them.
    own = {name: value.detach().clone() for name, value in weights.items() if name not in trained}
    with seeded(part.seed, torch.device(problem.device)), torch.enable_grad():
        loss = _watched_loss(problem, own | trained, part)
        # As zeros where the loss does not use it.
        grads = torch.autograd.grad(loss * n, list(trained.values()), materialize_grads=True)
    gradient = dict(zip(trained, grads, strict=True))
    squares = sum(float(vector_norm(g, dtype=torch.float64)) ** 2 for g in grads) / n
    frozen = {name for name, _ in problem.module.named_parameters()}
    buffers = {name: _weighted(value, n) for name, value in own.items() if name not in frozen}
    return Sums(gradient, buffers, float(loss.detach()) * n, squares, n, 1)


def _watched_loss(problem: Problem, tensors: dict[str, Tensor], part: "MicroBatch") -> Tensor:
    """The loss of which a gradient will be taken; the first time, if that writes where it may.

    Raises:
        UserError: it would not, see `gossip.task.overrun`.
    """
    if problem in _LOOKED_AT:
        return _loss(problem, tensors, part)
    with OverrunDetector() as watch:
        loss = _loss(problem, tensors, part)
    if watch.overruns:
        raise UserError(
            f"the module {type(problem.module).__name__} puts the channels of its images last, and "
            f"{FAULT}: leave them where they are, or use float64"
        )
    _LOOKED_AT.add(problem)
    return loss


def _loss(problem: Problem, tensors: dict[str, Tensor], part: "MicroBatch") -> Tensor:
    inputs, targets = problem.samples.batch(part.indices)
    inputs, targets = _on(problem.device, inputs), _on(problem.device, targets)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    loss = problem.loss(functional_call(problem.module, tensors, inputs), targets)
    if loss.ndim:
        raise UserError(
            f"the loss {type(problem.loss).__name__} gives {tuple(loss.shape)} numbers for a batch "
            "and has to give their mean: reduction='mean'"
        )
    return loss


def _on(device: str, value: object) -> object:
    """On the device and row-major: images that are transposed would have their channels last."""
    if isinstance(value, Tensor):
        return value.to(device).contiguous()
    return tuple(_on(device, one) for one in value) if isinstance(value, tuple | list) else value


def _weighted(buffer: Tensor, n: int) -> Tensor:
    return buffer * n if buffer.is_floating_point() else buffer


def _joined(a: Tensor, b: Tensor) -> Tensor:
    return a + b if a.is_floating_point() else torch.maximum(a, b)
