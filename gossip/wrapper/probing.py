"""Gradients of a user's loss at the mean model, through the user's own module."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gossip.comm.base import Communicator
from gossip.comm.startup.together import on_all
from gossip.errors import UserError
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.streams import seeded
from gossip.task.layers import NORM
from gossip.wrapper.mesh import Meshed
from gossip.wrapper.shards import gradient_of, is_distributed
from gossip.wrapper.statistics import unchanged
from gossip.wrapper.watching import as_one_row, as_own_rows
from gossip.wrapper.weights import Weights

Loss = Callable[[nn.Module, Any], Tensor]
"""(module, batch) -> the mean loss over the samples of the batch, a scalar."""


class ProbeBatches(NamedTuple):
    """What g is measured on."""

    batches: Iterable[Any]
    """A loader of the learner here, walked through anew at each measurement."""
    whole: bool
    """Whether those of all learners together are the whole training set: then g is exact."""


class Replay:
    """A module and a loss as functions of a row of weights; what they change is put back.

    Rows, and the gradients, are as `Weights.once` gives them.

    Dropout draws nothing, BatchNorm normalises by the batch: the training loss without its noise,
    as everywhere in gossip. One that is in evaluation while the module trains is frozen, and stays
    so. A loss has the precision that it asks for itself: an autocast around
    the script's step is none of it.

    Args:
        module: the user's, unwrapped.
        weights: its trained parameters.
        loss: the user's.
    """

    def __init__(self, module: nn.Module, weights: Weights, loss: Loss) -> None:
        self._module, self._loss = module, loss
        self.weights = weights

    def gradient(self, row: Tensor, probe: ProbeBatches, comm: Communicator) -> MeanModelGradient:
        r"""The gradient at `row` [d] over all learners' probes, of S batches b_i. Collective.

        .. math::
            \|g\|^2 \approx \|\hat g\|^2
            - \frac{1}{m (S - 1)} \sum_{i=1}^S b_i \|\hat g_i - \hat g\|^2

        the estimator of `gossip.monitor.sources.sampled`, for samples of an endless set; of the
        whole training set ||g||^2 is exact and nothing is taken out. Of learners of s processes
        the vector is the part of it that is here, and its numbers are those of whole learners.

        Raises:
            UserError: fewer than two batches in all, the same ones on all learners, or more on one
                process of a learner than on another.
        """
        sums = self._sums(row, probe.batches)
        if isinstance(comm, Meshed):
            _refuse_unequal_parts(sums.samples, comm)
        if not probe.whole:
            _refuse_the_same(sums.loss, comm)
        packed = torch.cat([sums.gradient, row.new_tensor(sums[1:])])
        total = comm.mean(packed.unsqueeze(0)) * comm.n
        m = float(total[-3])
        vector = total[:-4] / m
        numbers = torch.stack([*total[-4:], vector @ vector])
        loss, samples, squares, groups, square = within(comm, numbers).tolist()
        groups *= comm.n / comm.processes if isinstance(comm, Meshed) else 1
        if not samples or (groups < 2 and not probe.whole):
            raise UserError(
                f"the probe gave {groups:.0f} batches in all: give a loader that can be walked "
                "through again and again, of at least two batches, or one with whole=True"
            )
        excess = 0.0 if probe.whole else (squares - m * square) / (groups - 1) / m
        different = round(samples * _apart(sums.loss, comm))
        return MeanModelGradient(vector, square - excess, excess, loss / samples, different)

    def mean_gradient(self, row: Tensor, batches: Iterable[Any], comm: Communicator) -> Tensor:
        """g_S: the mean over learners of each one's gradient over its `batches`. Collective."""
        sums = self._sums(row, batches)
        return comm.mean((sums.gradient / max(sums.samples, 1)).unsqueeze(0))

    def _sums(self, row: Tensor, batches: Iterable[Any]) -> "ProbeSums":
        gradient, loss, samples, squares, groups = torch.zeros_like(row), 0.0, 0, 0.0, 0
        slots = self.weights.slots.values()
        with self.standing_at(row):
            for batch in batches:
                count = samples_in(batch)
                value = self.value(batch)
                own = self.row(_gradients(value, [s.parameter for s in slots])).to(gradient)
                gradient += count * own
                loss += count * float(value.detach())
                squares += count * float(own @ own)
                samples, groups = samples + count, groups + 1
        return ProbeSums(gradient, loss, samples, squares, groups)

    def loss(self, batch: Any) -> Tensor:
        """What the user's function gives, whatever it is."""
        return self._loss(self._module, batch)

    def value(self, batch: Any) -> Tensor:
        """The loss of a batch.

        Raises:
            UserError: it is not one number, or has no gradient.
        """
        loss = self.loss(batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            kind = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise UserError(
                f"loss(module, batch) gave {kind}: give the mean loss of the batch, one number"
            )
        if not loss.requires_grad:
            raise UserError(
                "loss(module, batch) gave a number that depends on no weight: compute it by the "
                "module that it is given, without .detach() or torch.no_grad()"
            )
        return loss

    def row(self, parts: Iterable[Tensor | None]) -> Tensor:
        """A part for each parameter, in the order of the slots, as a row [d] float64."""
        rows = [torch.zeros_like(like) for like in self.weights.like]
        for slot, part in zip(self.weights.slots.values(), parts, strict=True):
            if part is not None:
                slot.part(rows).add_(gradient_of(slot.parameter, part))
        return as_one_row(self.weights.once(rows))[0].double()

    @contextmanager
    def standing_at(self, row: Tensor) -> Iterator[None]:
        """In this block the module has the weights `row`, and is looked at only."""
        own, trains = self.weights.rows(), self._module.training
        modes = [(part, part.training) for part in self._module.modules()]
        try:
            for part, mode in modes:
                part.training = isinstance(part, NORM) and (mode or not trains)
            parts = row.unsqueeze(0).split([like.shape[1] for like in own], dim=1)
            full = as_one_row(self.weights.of_once(list(parts)))[0]
            self.weights.lend(as_own_rows(full, self.weights.like))
            with (
                unchanged(self._module),
                seeded(0, own[0].device),
                torch.enable_grad(),
                _no_autocast(own),
            ):
                yield
        finally:
            self.weights.lend(own)
            for part, mode in modes:
                part.training = mode


@contextmanager
def _no_autocast(rows: Iterable[Tensor]) -> Iterator[None]:
    """In this block none is in force on the devices of `rows`, which may lie in a user's.

    One that a loss begins itself keeps no copies of these weights either: of the same parameters
    the user's would take them.
    """
    with ExitStack() as stack:
        for kind in {row.device.type for row in rows}:
            stack.enter_context(torch.autocast(kind, enabled=False, cache_enabled=False))
        yield


class ProbeSums(NamedTuple):
    """Sums over the samples of one learner."""

    gradient: Tensor
    """[d] float64."""
    loss: float
    samples: int
    squares: float
    """Of b_i ||g_i||^2 over the batches."""
    groups: int
    """How many batches."""


def within(comm: Communicator, x: Tensor) -> Tensor:
    """[k]: the sum over a learner's processes, which mostly is one. Collective."""
    return comm.within(x) if isinstance(comm, Meshed) else x


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Of the loss; the parameters keep the gradients they have."""
    if not any(map(is_distributed, parameters)):
        return torch.autograd.grad(loss, parameters, allow_unused=True)
    # The graph has the gathered parameters: only a whole backward pass comes to these.
    kept = [p.grad for p in parameters]
    try:
        for p in parameters:
            p.grad = None
        loss.backward()
        return [p.grad for p in parameters]
    finally:
        for p, gradient in zip(parameters, kept, strict=True):
            p.grad = gradient


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


def _refuse_unequal_parts(samples: int, comm: Meshed) -> None:
    """A sharded module's gradient is the mean over a learner's processes, whatever each has."""
    total = float(comm.within(torch.tensor([samples], dtype=torch.float64)))

    def check() -> None:
        if total * comm.n != samples * comm.processes:
            raise UserError(
                f"of {total:.0f} samples of a learner's probe one of its processes has {samples}: "
                "give the processes of a learner equal parts of each batch"
            )

    on_all(comm, check)


def _apart(loss: float, comm: Communicator) -> float:
    """The share of a learner's processes that have samples of their own.

    Where its tensors are split, several have the same ones, and so the same loss.
    """
    if not isinstance(comm, Meshed):
        return 1.0
    everyone = comm.world.gather(torch.tensor([[loss]], dtype=torch.float64))
    own = comm.of_learner(comm.process, everyone)
    return len(own.unique()) / len(own)


def _refuse_the_same(loss: float, comm: Communicator) -> None:
    """Refuse learners whose probes are the same samples: their noise would count n times."""
    losses = comm.gather(torch.tensor([[loss]], dtype=torch.float64))
    if comm.n > 1 and bool((losses == losses[0]).all()):
        raise UserError(
            "the probe is the same on all learners, so that its noise cannot be told: give each "
            "learner samples of its own (DistributedSampler), or the whole training set with "
            "whole=True"
        )
