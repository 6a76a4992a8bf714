"""Gradients of a user's loss at the mean model, through the user's own module."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gossip.comm.base import Communicator
from gossip.errors import UserError
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.streams import seeded
from gossip.task.layers import NORM
from gossip.wrapper.watching import joined, parted
from gossip.wrapper.weights import Weights

Loss = Callable[[nn.Module, Any], Tensor]
"""(module, batch) -> the mean loss over the samples of the batch, a scalar."""


class Probe(NamedTuple):
    """What g is measured on."""

    batches: Iterable[Any]
    """A loader of the learner here, walked through anew at each measurement."""
    whole: bool
    """Whether those of all learners together are the whole training set: then g is exact."""


class Replay:
    """A module and a loss as functions of a row of weights; what they change is put back.

    Dropout draws nothing, BatchNorm normalises by the batch: the training loss without its noise,
    as everywhere in gossip.

    Args:
        module: the user's, unwrapped.
        weights: its trained parameters.
        loss: the user's.
    """

    def __init__(self, module: nn.Module, weights: Weights, loss: Loss) -> None:
        self._module, self._weights, self._loss = module, weights, loss

    def gradient(self, row: Tensor, probe: Probe, comm: Communicator) -> MeanModelGradient:
        r"""The gradient at `row` [d] over all learners' probes, of S batches b_i. Collective.

        .. math::
            \|g\|^2 \approx \|\hat g\|^2
            - \frac{1}{m (S - 1)} \sum_{i=1}^S b_i \|\hat g_i - \hat g\|^2

        the estimator of `gossip.monitor.sources.sampled`, for samples of an endless set; of the
        whole training set ||g||^2 is exact and nothing is taken out.

        Raises:
            UserError: fewer than two batches in all, or the same ones on all learners.
        """
        sums = self._sums(row, probe.batches)
        if not probe.whole:
            _refuse_the_same(sums.loss, comm)
        packed = torch.cat([sums.gradient, row.new_tensor(sums[1:])])
        total = comm.mean(packed.unsqueeze(0)) * comm.n
        loss, m, squares, groups = total[-4:].tolist()
        if m == 0 or (groups < 2 and not probe.whole):
            raise UserError(
                f"the probe gave {groups:.0f} batches in all: give a loader that can be walked "
                "through again and again, of at least two batches, or one with whole=True"
            )
        vector = total[:-4] / m
        square = float(vector @ vector)
        excess = 0.0 if probe.whole else (squares - m * square) / (groups - 1) / m
        return MeanModelGradient(vector, square - excess, excess, loss / m, int(m))

    def mean_gradient(self, row: Tensor, batches: Iterable[Any], comm: Communicator) -> Tensor:
        """g_S: the mean over learners of each one's gradient over its `batches`. Collective."""
        sums = self._sums(row, batches)
        return comm.mean((sums.gradient / max(sums.samples, 1)).unsqueeze(0))

    def _sums(self, row: Tensor, batches: Iterable[Any]) -> "Sums":
        gradient, loss, samples, squares, groups = torch.zeros_like(row), 0.0, 0, 0.0, 0
        with self._standing_at(row):
            for batch in batches:
                count = samples_in(batch)
                value = self._loss(self._module, batch)
                own = self._gradient_of(value).to(gradient)
                gradient += count * own
                loss += count * float(value.detach())
                squares += count * float(own @ own)
                samples, groups = samples + count, groups + 1
        return Sums(gradient, loss, samples, squares, groups)

    def _gradient_of(self, loss: Any) -> Tensor:
        """As a row, [d] float64."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            kind = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise UserError(
                f"loss(module, batch) gave {kind}: give the mean loss of the batch, one number"
            )
        slots = list(self._weights.slots.values())
        parts = torch.autograd.grad(loss, [s.parameter for s in slots], allow_unused=True)
        rows = [torch.zeros_like(like) for like in self._weights.like]
        for slot, part in zip(slots, parts, strict=True):
            if part is not None:
                slot.part(rows).add_(part.to_dense())
        return joined(rows)[0].double()

    @contextmanager
    def _standing_at(self, row: Tensor) -> Iterator[None]:
        """In this block the module has the weights `row`, and is looked at only."""
        own = self._weights.rows()
        buffers = [(buffer, buffer.clone()) for buffer in self._module.buffers()]
        modes = [(part, part.training) for part in self._module.modules()]
        try:
            for part, _ in modes:
                part.training = isinstance(part, NORM)
            self._weights.lend(parted(row, self._weights.like))
            with seeded(0, own[0].device), torch.enable_grad():
                yield
        finally:
            self._weights.lend(own)
            for buffer, before in buffers:
                buffer.data.copy_(before)
            for part, mode in modes:
                part.training = mode


class Sums(NamedTuple):
    """Sums over the samples of one learner."""

    gradient: Tensor
    """[d] float64."""
    loss: float
    samples: int
    squares: float
    """Of b_i ||g_i||^2 over the batches."""
    groups: int
    """How many batches."""


def samples_in(batch: Any) -> int:
    """The length of the first tensor in a batch: itself, or in a sequence or mapping of them.

    Raises:
        UserError: there is none.
    """
    found = _first_tensor(batch)
    if found is None:
        raise UserError(
            f"a batch of the probe is a {type(batch).__name__} without a tensor in it: its number "
            "of samples is the length of its first tensor"
        )
    return len(found)


def _first_tensor(batch: Any) -> Tensor | None:
    if isinstance(batch, Tensor):
        return batch if batch.ndim else None
    inner = batch.values() if isinstance(batch, Mapping) else batch
    if not isinstance(inner, Iterable) or isinstance(inner, str | bytes):
        return None
    return next((found for each in inner if (found := _first_tensor(each)) is not None), None)


def _refuse_the_same(loss: float, comm: Communicator) -> None:
    """Refuse learners whose probes are the same samples: their noise would count n times."""
    losses = comm.gather(torch.tensor([[loss]], dtype=torch.float64))
    if comm.n > 1 and bool((losses == losses[0]).all()):
        raise UserError(
            "the probe is the same on all learners, so that its noise cannot be told: give each "
            "learner samples of its own (DistributedSampler), or the whole training set with "
            "whole=True"
        )
