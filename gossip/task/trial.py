"""What a model's passes do beside giving numbers, found out by trying.

A learner's gradient is to depend on its weights, its batch and its address (seed, learner, step)
alone. Whatever else a pass reads or changes is shared by the learners that a process hosts, and
makes a run depend on how they are spread, and on how often it was interrupted.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gossip.errors import UserError
from gossip.streams import seeded, where
from gossip.task.attributes import attributes
from gossip.task.building import cannot_take, logits
from gossip.task.layers import NORM
from gossip.task.likeness import alike, differ, unlike
from gossip.task.loss import cross_entropy, refuse_no_mean
from gossip.task.overrun import FAULT, OverrunDetector

SAMPLES = 4
"""In a trial's batch."""
SEED = 0
"""Of what is drawn in a trial's passes."""
NEEDED = 2 * SAMPLES - 1
"""For two batches that have the first sample in common."""


class Conduct(NamedTuple):
    """What a model was seen to do."""

    draws: bool
    """Whether a training pass draws from the global generators, as Dropout does."""
    looks_at_batch: bool
    """Whether what a training pass makes of a sample depends on the others in its batch."""
    judged_by_batch: bool
    """The same of evaluation."""
    cramped: bool
    """Whether it has convolutions that would overrun, see `gossip.task.overrun`."""
    gradients: dict[str, Tensor]
    """Of the parameters that are trained, at the first batch and `SEED`; no zeros."""


class _Pass(NamedTuple):
    """A pass, and what it has left."""

    logits: Tensor
    gradients: dict[str, Tensor]
    drew: bool
    remembered: dict[str, object]


MeanLoss = Callable[[Tensor, Tensor], Tensor]
"""Logits and labels -> the mean loss."""


def conduct(
    model: nn.Module, inputs: Tensor, labels: Tensor, loss: MeanLoss, num_classes: int
) -> Conduct:
    """Try some passes of a model, in the precision of its weights; it is as before afterwards.

    Args:
        model: of its own, not one that is trained.
        inputs: of `NEEDED` samples that are not all alike.
        labels: of them.
        loss: mean loss.
        num_classes: outputs it must have at least.

    Raises:
        UserError: it cannot take the samples, does not give logits, or a pass reads or changes
            what belongs to no learner.
    """
    tried = _Tried(model, loss, num_classes)
    batch = inputs[:SAMPLES], labels[:SAMPLES]
    others = [0, *range(SAMPLES, NEEDED)]
    other = inputs[others], labels[others]
    try:
        cramped = tried.one(inputs[:1], labels[:1])
        judged_by_batch = tried.in_evaluation(batch, other)
        draws, looks_at_batch, gradients = tried.in_training(batch, other)
    finally:
        tried.undo()
    return Conduct(draws, looks_at_batch, judged_by_batch, cramped, gradients)


Batch = tuple[Tensor, Tensor]


class _Tried:
    """A model under trial."""

    def __init__(self, model: nn.Module, loss: MeanLoss, num_classes: int) -> None:
        self._model, self._loss, self._num_classes = model, loss, num_classes
        self._name = f"model {type(model).__name__}"
        self._buffers = {name: b.clone() for name, b in model.named_buffers()}
        self._weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def one(self, inputs: Tensor, labels: Tensor) -> bool:
        """Look at the outputs for a single sample, which may be the rest of a data set.

        Before any gradient is taken, which could corrupt memory.

        Returns:
            Whether there are convolutions that would overrun, with their channels innermost.
        """
        self._model.eval()
        with torch.no_grad(), seeded(SEED, inputs.device), OverrunDetector() as watch:
            self._logits(inputs, labels)
        self.undo()
        if watch.overruns:
            raise UserError(
                f"{self._name} puts the channels of its images last, and {FAULT}: leave them where "
                "they are, or use float64"
            )
        return watch.found

    def in_evaluation(self, batch: Batch, other: Batch) -> bool:
        """Whether a sample is judged by its batch; refuses what evaluation may not do."""
        self._model.eval()
        with torch.no_grad():
            one, two = self._pass(batch), self._pass(other)
            if self._loss is not cross_entropy:
                refuse_no_mean(self._loss, one.logits, batch[1])
        if one.drew:
            raise UserError(
                f"{self._name} draws random numbers in evaluation, too, so that an error would "
                "depend on who measures it: draw only while self.training, as with "
                "F.dropout(x, p, self.training)"
            )
        if moved := self._moved():
            raise UserError(
                f"{self._name} changes its buffer {moved[0]!r} in evaluation: change it only while "
                "self.training"
            )
        return not alike(one.logits[0], two.logits[0])

    def in_training(self, batch: Batch, other: Batch) -> tuple[bool, bool, dict[str, Tensor]]:
        """Whether a pass draws, whether it looks at the batch, and the gradient of the first one.

        Refuses what a pass may not do.
        """
        self._model.train()
        one = self._pass(batch)
        moved = self._moved()
        self._refuse_moved(moved)
        again = self._pass(batch)
        if one.remembered != again.remembered:  # it may have made room for something once
            one, again = again, self._pass(batch)
        self._refuse_memory(one, again)
        if moved:
            running = self._pass(batch, undo=False)
            if not self._same(running, again):
                raise UserError(
                    f"{self._name} reads its buffer {moved[0]!r} in a training pass and changes it "
                    "there: this is not supported, because passes that only measure would, too"
                )
        looks_at_batch = not alike(one.logits[0], self._pass(other).logits[0])
        return one.drew, looks_at_batch, one.gradients

    def undo(self) -> None:
        """Put buffers back to where they were, and all parts into training mode."""
        own = dict(self._model.named_buffers())
        with torch.no_grad():
            for name, before in self._buffers.items():
                if name in own and own[name].shape == before.shape:
                    own[name].copy_(before)
        self._model.train()

    def _pass(self, batch: Batch, *, undo: bool = True) -> _Pass:
        """A pass from the first state, always with the same random numbers."""
        training = self._model.training
        if undo:
            self.undo()
            self._model.train(training)
        inputs, labels = batch
        with seeded(SEED, inputs.device):
            before = where(inputs.device)
            outputs = self._logits(inputs, labels)
            gradients = self._gradients(outputs, inputs, labels) if training else {}
            drew = where(inputs.device) != before
        return _Pass(outputs.detach(), gradients, drew, attributes(self._model))

    def _logits(self, inputs: Tensor, labels: Tensor) -> Tensor:
        try:
            outputs = self._model(inputs)
        except UserError:
            raise
        # What a model does in its forward pass is its own affair.
        except Exception as error:
            raise cannot_take(self._model, inputs, error) from error
        return logits(self._model, outputs, inputs, labels, self._num_classes)

    def _gradients(self, outputs: Tensor, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        loss = self._loss(outputs, labels)
        if not loss.requires_grad:
            raise UserError(
                f"{self._name} gives outputs that depend on no parameter that is trained (is there "
                "a .detach(), or torch.no_grad(), in it?)"
            )
        leaves = {name: p for name, p in self._model.named_parameters() if p.requires_grad}
        try:
            grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        except Exception as error:
            raise cannot_take(self._model, inputs, error) from error
        return {
            name: g.to_dense()
            for name, g in zip(leaves, grads, strict=True)
            if g is not None and g.numel()
        }

    def _moved(self) -> list[str]:
        """Buffers that are not what they were."""
        own = dict(self._model.named_buffers())
        names = {**self._buffers, **own}
        return [
            name
            for name in names
            if name not in own
            or name not in self._buffers
            or differ(own[name], self._buffers[name])
        ]

    def _refuse_moved(self, moved: list[str]) -> None:
        covered = _running_statistics(self._model)
        for name in moved:
            if name not in covered:
                raise UserError(
                    f"{self._name} changes its buffer {name!r} in a training pass, which is not "
                    "kept for each learner: only BatchNorm's running mean and variance are; leave "
                    "it away"
                )

    def _refuse_memory(self, one: _Pass, again: _Pass) -> None:
        for name, parameter in self._model.named_parameters():
            if differ(parameter.detach(), self._weights[name]):
                raise UserError(
                    f"{self._name} changes its own parameter {name!r} in a training pass: that is "
                    "for the optimizer"
                )
        names = one.remembered.keys() | again.remembered.keys()
        changed = sorted(n for n in names if one.remembered.get(n) != again.remembered.get(n))
        if changed:
            raise UserError(
                f"{self._name} changes its attribute {changed[0]!r} from one training pass to the "
                "next, which is not kept for each learner: leave it away, and draw random numbers "
                "from the global generators"
            )
        if not self._same(one, again):
            raise UserError(
                f"{self._name} gives other numbers in a second training pass with the same "
                "weights, batch and random numbers: something beside them goes into it, such as "
                "the time, a global counter or a generator of its own"
            )

    @staticmethod
    def _same(one: _Pass, again: _Pass) -> bool:
        return alike(one.logits, again.logits) and not unlike(one.gradients, again.gradients)


def _running_statistics(model: nn.Module) -> set[str]:
    """Buffers that a policy covers, and counters of batches that nothing depends on."""
    names: set[str] = set()
    for prefix, part in model.named_modules():
        if isinstance(part, NORM) and part.track_running_stats:
            own = ["running_mean", "running_var"]
            if part.momentum is not None:
                own.append("num_batches_tracked")
            names |= {f"{prefix}.{name}".lstrip(".") for name in own}
    return names
