"""Gradients at rows: of perceptrons, in one batched pass of any model, or row after row."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import vmap

from gossip.errors import said
from gossip.task import likeness, perceptrons
from gossip.task.derivatives import gradients
from gossip.task.layers import NORM, layer_squares
from gossip.task.likeness import ROUNDINGS
from gossip.task.linear import WeightFirst
from gossip.task.row_model import Named, RowModel

PERCEPTRONS, VMAP, LOOP = "perceptrons", "vmap", "loop"
ROWS_AT_ONCE = 2**24
"""Numbers in the gradients of several learners that are held while a shared row is summed up."""

NamedLoss = Callable[[Named, Tensor, Tensor], Tensor]
"""Named tensors, inputs and labels -> the mean loss, or one for each row."""


class Gradients(NamedTuple):
    """Raw gradients of one step, and what only whoever computes them can know."""

    values: Tensor
    """[rows, d]: one row per learner, or the mean over this process's learners."""
    losses: Tensor
    """Mini-batch losses, [rows]."""
    squares: Tensor | None = None
    """||g_i||^2 by layer, [rows, layers] float64, averaged over the learners behind a row; None
    where each row is one learner's own gradient and can be asked itself."""


class RowGradients:
    """How the gradients of a model at several rows are taken.

    Args:
        model: whose.
        one_by_one: whether what it makes of a sample depends on the others, so that learners with
            one row among them cannot share a batch.
        engine: PERCEPTRONS, VMAP or LOOP, see `Task`.
    """

    def __init__(self, model: RowModel, *, one_by_one: bool, engine: str = LOOP) -> None:
        self.model, self.engine = model, engine
        self._one_by_one = one_by_one or bool(model.buffers) or model.draws
        self._step_loss = self._compiled(model.loss)
        self._batched_loss = self._compiled(vmap(model.loss))
        self._exact_batched_loss = vmap(model.exact_loss)

    def choose(self, rows: Callable[[], Tensor], inputs: Tensor, labels: Tensor) -> tuple[str, ...]:
        """Choose the engine by trying: its gradients are to be those of one row after the other.

        Args:
            rows: makes two that differ, [2, d].
            inputs: [2, batch, *input_shape].
            labels: [2, batch, *label_shape].

        Returns:
            What the user should know of the choice.
        """
        numerics = self.model.numerics
        # A grouped convolution is slow on a CPU, and has no channels that could come last.
        slow = numerics.device.type == "cpu" or numerics.channels_last
        in_turn = (nn.RNNBase, NORM) + ((nn.modules.conv._ConvNd,) if slow else ())
        self.engine = LOOP
        if self.model.draws:
            return ("gradients are taken in turn: the model draws random numbers",)
        if any(isinstance(m, in_turn) for m in self.model.module.modules()):
            return ()
        tried = rows(), inputs, labels
        is_plain = not (self.model.ties or numerics.compile or numerics.amp)
        if is_plain and self._is_perceptron(*tried):
            self.engine = PERCEPTRONS
            return ()
        try:
            with _warnings() as caught, WeightFirst():
                parameters = self.model.parameters(tried[0])
                losses = vmap(self.model.loss)(parameters, inputs, labels)
                _flat_gradient(losses, parameters, tried[0].shape[:1], None)
                # Mixed precision rounds otherwise in a batch, and is no other gradient for that.
                found = self._batched(*tried, None, exact=True).values
                is_same = self._is_gradient(found, *tried)
        # Data-dependent control flow, an operation without a batching rule, or what a model makes
        # of tensors that have no numbers.
        except Exception as error:
            return (
                "gradients are taken in turn: model and loss cannot be batched "
                f"({said(error, 100)})",
            )
        # What has no batching rule, such as fused attention, is done in turn all the same.
        if slow and any("batching rule" in str(each.message) for each in caught):
            return (
                "gradients are taken in turn: on a CPU torch has no batched form of a part of the "
                "model, such as fused attention",
            )
        if not is_same:
            return ("gradients are taken in turn: in a batched pass they come out otherwise",)
        self.engine = VMAP
        return ()

    def at(
        self,
        x: Tensor,
        inputs: Tensor,
        labels: Tensor,
        *,
        squares: bool = False,
        buffers: Tensor | None = None,
        seeds: Sequence[int] | None = None,
        scale: "float | Tensor | None" = None,
        exact: bool = False,
    ) -> Gradients:
        """As `Task.gradient`."""
        local = len(inputs)
        assert len(seeds) == local if seeds is not None else not self.model.draws
        of_row = partial(self.of_row, scale=scale, exact=exact)
        if len(x) == 1 < local and (squares or self._one_by_one):
            of_rows = partial(self.at, scale=scale, exact=exact)
            return self._shared_row(x[0], inputs, labels, squares, buffers, seeds, of_rows)
        if len(x) == 1:
            own = None if buffers is None else buffers[0]
            batch = inputs.flatten(0, 1), labels.flatten(0, 1)
            gradient, loss = of_row(x[0], *batch, own, None if seeds is None else seeds[0])
            return Gradients(gradient.unsqueeze(0), loss.unsqueeze(0))
        if self.engine == PERCEPTRONS:
            return self._of_perceptrons(x, inputs, labels, scale)
        if self.engine == VMAP:
            return self._batched(x, inputs, labels, scale, exact)
        nobody, values = [None] * local, torch.empty_like(x)
        each = zip(x, inputs, labels, _or(buffers, nobody), _or(seeds, nobody), strict=True)
        losses = [of_row(*row, out=own)[1] for own, row in zip(values, each, strict=True)]
        return Gradients(values, torch.stack(losses))

    def _of_perceptrons(
        self,
        x: Tensor,
        inputs: Tensor,
        labels: Tensor,
        scale: "float | Tensor | None" = None,
        out: Tensor | None = None,
    ) -> Gradients:
        values = x.new_empty(x.shape) if out is None else out
        views = zip(self.model.views(x), self.model.views(values), strict=True)
        rows = dict(zip(self.model.trained, starmap(perceptrons.ParameterRows, views), strict=True))
        model = self.model
        losses = perceptrons.gradient(model.module, model.of_logits, rows, inputs, labels, scale)
        return Gradients(values if scale is None else values.div_(scale), losses)

    def _batched(
        self,
        x: Tensor,
        inputs: Tensor,
        labels: Tensor,
        scale: "float | Tensor | None",
        exact: bool,
    ) -> Gradients:
        parameters = self.model.parameters(x)
        of_rows = self._exact_batched_loss if exact else self._batched_loss
        with nullcontext() if self.model.numerics.compile else WeightFirst():
            losses = of_rows(parameters, inputs, labels)
        return Gradients(_flat_gradient(losses, parameters, x.shape[:1], scale), losses.detach())

    def _shared_row(
        self,
        row: Tensor,
        inputs: Tensor,
        labels: Tensor,
        squares: bool,
        buffers: Tensor | None,
        seeds: Sequence[int] | None,
        gradient: Callable[..., Gradients],
    ) -> Gradients:
        """Mean over the local learners, a few gradients in memory at a time."""
        local = len(inputs)
        at_once = max(1, ROWS_AT_ONCE // row.numel()) if self.engine != LOOP else 1
        total = torch.zeros_like(row)
        loss = row.new_zeros(())
        sums = row.new_zeros(len(self.model.layers), dtype=torch.float64)
        for start in range(0, local, at_once):
            part = slice(start, start + at_once)
            x = row.expand(len(inputs[part]), -1)
            own = None if buffers is None else buffers[part]
            draws = None if seeds is None else seeds[part]
            some = gradient(x, inputs[part], labels[part], buffers=own, seeds=draws)
            total += some.values.sum(dim=0)
            loss += some.losses.sum()
            if squares:
                sums += layer_squares(some.values, self.model.layers).sum(dim=0)
        return Gradients(
            (total / local).unsqueeze(0),
            (loss / local).unsqueeze(0),
            (sums / local).unsqueeze(0) if squares else None,
        )

    def _is_perceptron(self, rows: Tensor, inputs: Tensor, labels: Tensor) -> bool:
        """Whether the model is a perceptron, by its gradients."""
        try:
            found = self._of_perceptrons(rows, inputs, labels).values
            return self._is_gradient(found, rows, inputs, labels)
        except Exception:  # whatever a model makes of a dimension that it does not expect
            return False

    def _is_gradient(self, found: Tensor, rows: Tensor, inputs: Tensor, labels: Tensor) -> bool:
        """Whether found [rows, d] is what `of_row` gives, to half of each layer's digits.

        Of a layer that has no gradient but by rounding, to the rounding of the others.
        """
        for row, own, batch, wanted in zip(rows, found, inputs, labels, strict=True):
            expected, _ = self.of_row(row, batch, wanted, exact=True)
            rounding = ROUNDINGS * torch.finfo(found.dtype).eps * float(expected.abs().max())
            parts = (slice(layer.start, layer.stop) for layer in self.model.layers)
            if not all(likeness.alike(own[p], expected[p], rounding) for p in parts):
                return False
        return True

    def _compiled(self, loss: NamedLoss) -> NamedLoss:
        """`loss`, its forward and backward passes by torch.compile if that is wanted.

        A gradient of one learner took 0.84 of the time for ResNet-18 (batch 8; 50 s to compile),
        and 1.1 of it for MLPs of 50 and of 512 units (batch 32), on one CPU thread; 16 learners
        of the former, by vmap, 0.95. Not measured on a GPU.
        """
        return torch.compile(loss) if self.model.numerics.compile else loss

    def of_row(
        self,
        row: Tensor,
        inputs: Tensor,
        labels: Tensor,
        buffers: Tensor | None = None,
        seed: int | None = None,
        *,
        scale: "float | Tensor | None" = None,
        exact: bool = False,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Gradient [d], in `out` if it is given, and loss of one row on one batch."""
        if self.engine == PERCEPTRONS:
            own = None if out is None else out.unsqueeze(0)
            one = row.unsqueeze(0), inputs.unsqueeze(0), labels.unsqueeze(0)
            found = self._of_perceptrons(*one, scale, own)
            return found.values[0], found.losses[0]
        parameters = self.model.parameters(row)
        of_row = self.model.exact_loss if exact else self._step_loss
        with self.model.drawing(seed):
            loss = of_row(parameters | self.model.named_buffers(buffers), inputs, labels)
        return _flat_gradient(loss, parameters, row.shape[:0], scale, out), loss.detach()


@contextmanager
def _warnings() -> Iterator[list[warnings.WarningMessage]]:
    """All that are given in this block, those too that torch gives once per process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        torch.set_warn_always(before)


def _flat_gradient(
    losses: Tensor,
    parameters: dict[str, Tensor],
    rows: torch.Size,
    scale: "float | Tensor | None",
    out: Tensor | None = None,
) -> Tensor:
    """Gradient of each row's own loss, [*rows, d], in `out` if it is given."""
    loss = losses.sum()
    scaled = loss if scale is None else loss * scale
    found = gradients(scaled, list(parameters.values()))
    flat = torch.cat([g.reshape(*rows, -1) for g in found], dim=-1, out=out)
    return flat if scale is None else flat.div_(scale)


def _or(rows: "Tensor | Sequence[int] | None", nobody: list[None]) -> Any:
    return nobody if rows is None else rows
