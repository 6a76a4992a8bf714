"""Model and loss as functions of a flat row, for many learners at once."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from gossip.comm.base import Communicator
from gossip.errors import UserError, said
from gossip.streams import seeded
from gossip.task import perceptrons
from gossip.task.building import cannot_take, converted, made, refuse_unlike
from gossip.task.derivatives import dense, gradients, refuse_ends, twice_differentiable
from gossip.task.layers import NORM, layer_squares, layers, running_statistics
from gossip.task.likeness import unlike
from gossip.task.linear import WeightFirst
from gossip.task.loss import OfLogits, cross_entropy, total
from gossip.task.numerics import PLAIN, Numerics
from gossip.task.overrun import spared
from gossip.task.parameters import coordinates
from gossip.task.samples import RECALIBRATION_CHUNK, Samples, chunks
from gossip.task.trial import NEEDED, SAMPLES, SEED, conduct

ROWS_AT_ONCE = 2**24
"""Numbers in the gradients of several learners that are held while a shared row is summed up."""


class Scores(NamedTuple):
    """Sums over labels, so that shares of a data set can be added up."""

    loss: float
    errors: float
    """Of classes: how many are wrong; of numbers: the squared distances in units of the variance
    of the labels of the whole data set, so that the mean is 1 - R^2."""
    labels: int
    """Number of predictions: one per sample, or one per token, or number."""


class Gradients(NamedTuple):
    """Raw gradients of one step, and what only whoever computes them can know."""

    values: Tensor
    """[rows, d]: one row per learner, or the mean over this process's learners."""
    losses: Tensor
    """Mini-batch losses, [rows]."""
    squares: Tensor | None = None
    """||g_i||^2 by layer, [rows, layers] float64, averaged over the learners behind a row; None
    where each row is one learner's own gradient and can be asked itself."""


Loss = Callable[[dict[str, Tensor], Tensor, Tensor], Tensor]
"""Named tensors, inputs and labels -> the mean loss, or one for each row."""


class Task:
    """A task of prediction: mean loss of a model on batches, cross-entropy unless told.

    A flat row holds the parameters that are trained in `named_parameters()` order, each row-major,
    those that live in one memory once. All methods are functions of rows and samples; a task
    keeps no weights but the frozen ones. A label is a class, or a row of classes where the model
    gives logits for each of several positions (words), or a row of numbers, which the model's
    outputs are to come to.

    A model may draw random numbers while it is trained, as Dropout does: each learner's pass of a
    step then has a seed. What is measured or judged is the model without them, which for Dropout
    is that of all units.

    BatchNorm's running statistics are no parameters: they are neither mixed nor part of d. A
    gradient is taken with the statistics of its own mini-batch; those that run along belong to
    the learner (`init_buffers`), and a model is judged with statistics it is given.

    Args:
        build: makes the model, drawing its initial weights from torch's generator.
        train: training samples.
        test: test samples.
        dtype: of rows and inputs.
        engine: how gradients of several rows are computed: "perceptrons" (one batched pass of
            linear maps, see `gossip.task.perceptrons`), "vmap" (one of any model), "loop" (one row
            after the other), or "auto": the first if the model is one; vmap unless it cannot be
            batched, or has what on a CPU is slower that way: convolutions, which become one grouped
            convolution, and whatever torch has no batching rule for, such as fused attention.
        num_classes: logits the model must have at least; not looked at if 0.
        seed: of what the model draws when it is made and is not trained, in frozen parameters.
        validation: samples held out of the training set, if any.
        numerics: where and how precisely it computes. Mixed precision is that of a step's
            gradients and of evaluation; sums over a data set and Hessians, which the monitor
            measures a step by, are in `dtype`. What would corrupt memory with this model is
            off, see `gossip.task.overrun`; `notes` say so.
        loss: mean loss of logits and labels; errors are counted by the largest logit all the same,
            or by squares if labels are numbers.

    Raises:
        UserError: the model has no parameters that are trained, does not give logits [batch,
            num_classes], would corrupt memory, or its passes read or change what belongs to no
            learner.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        train: Samples,
        test: Samples,
        *,
        dtype: torch.dtype = torch.float32,
        engine: str = "auto",
        num_classes: int = 0,
        seed: int = 0,
        validation: Samples | None = None,
        numerics: Numerics = PLAIN,
        loss: OfLogits = cross_entropy,
    ) -> None:
        self.build, self._of_logits = build, loss
        self.train, self.test, self.validation = train, test, validation
        self.dtype, self.numerics = dtype, numerics
        self.notes: tuple[str, ...] = ()
        """What the user should know of how it computes."""
        spread = np.arange(NEEDED) * len(train) // NEEDED
        inputs, labels = train.batch(spread)
        self._sample = inputs[:1]
        self.of_numbers = labels.is_floating_point()
        """Whether labels are numbers."""
        self._variances: dict[Samples, Tensor] = {}
        model, twin = (made(build, seed, self._sample) for _ in range(2))
        refuse_unlike(model, twin)
        parameters, self._ties = coordinates(model, f"model {type(model).__name__}")
        self.layers = tuple(layers(parameters))
        self.d = self.layers[-1].stop
        twin = converted(twin, numerics, dtype)
        seen = conduct(twin, inputs, labels, loss, num_classes)
        self.draws, self.looks_at_batch = seen.draws, seen.looks_at_batch
        self._judged_by_batch = seen.judged_by_batch
        if seen.cramped:
            self.numerics, self.notes = spared(numerics)
        self._model = converted(model, numerics, dtype)
        self._buffers = tuple(running_statistics(self._model))
        trained = dict(self._model.named_parameters())
        self._trained = [trained[layer.name] for layer in self.layers]
        own = dict(self._model.named_buffers())
        parts = [own[layer.name].reshape(-1) for layer in self._buffers]
        nothing = torch.empty(0, dtype=dtype, device=numerics.device)
        self._first_buffers = torch.cat(parts) if parts else nothing
        self._sizes = [layer.stop - layer.start for layer in self.layers]
        self._step_loss = self._compiled(self._loss)
        self._batched_loss = self._compiled(vmap(self._loss))
        self._exact_batched_loss = vmap(self._exact_loss)
        self.engine = "loop"
        self._refuse_hidden_weights(seed, inputs[:SAMPLES], labels[:SAMPLES], seen.gradients)
        self.engine = self._best_engine() if engine == "auto" else engine

    def init(self, seed: int) -> Tensor:
        """The model's own initial weights under `seed`, [d].

        The same numbers in every dtype and on every device.
        """
        model = made(self.build, seed, self._sample)
        own = dict(model.named_parameters())
        row = torch.cat([own[layer.name].detach().cpu().reshape(-1) for layer in self.layers])
        return row.to(self.numerics.device, self.dtype)

    @property
    def has_buffers(self) -> bool:
        """Whether the model keeps running statistics."""
        return bool(self._buffers)

    def init_buffers(self, local: int) -> Tensor:
        """Running statistics of `local` new learners, [local, b]."""
        return self._first_buffers.repeat(local, 1)

    def gradient(
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
        """Gradient of the mean loss of each row on its own batch.

        Args:
            x: [rows, d]; one row stands for all local learners and gets the mean of their
                gradients: of their batches together, or one after the other where single
                gradients matter (`squares`, BatchNorm).
            inputs: [local, batch, *input_shape].
            labels: [local, batch, *label_shape].
            squares: whether `Gradients.squares` is wanted.
            buffers: running statistics [local, b], moved on in place; None: nobody keeps them.
            seeds: of what the model draws, [local]; needed if it does.
            scale: the loss is multiplied by it before the backward pass, and the gradient divided
                by it after: what would be too small for half precision in between is not lost.
            exact: in `dtype` throughout, whatever the mixed precision.

        Returns:
            Detached.
        """
        local = len(inputs)
        assert len(seeds) == local if seeds is not None else not self.draws
        of_row = partial(self._gradient_of_row, scale=scale, exact=exact)
        one_by_one = squares or self.looks_at_batch or self.has_buffers or self.draws
        if len(x) == 1 < local and one_by_one:
            of_rows = partial(self.gradient, scale=scale, exact=exact)
            return self._shared_row(x[0], inputs, labels, squares, buffers, seeds, of_rows)
        if len(x) == 1:
            own = None if buffers is None else buffers[0]
            batch = inputs.flatten(0, 1), labels.flatten(0, 1)
            gradient, loss = of_row(x[0], *batch, own, None if seeds is None else seeds[0])
            return Gradients(gradient.unsqueeze(0), loss.unsqueeze(0))
        if self.engine == "perceptrons":
            return self._of_perceptrons(x, inputs, labels, scale)
        if self.engine == "vmap":
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
        views = zip(self._views(x), self._views(values), strict=True)
        rows = dict(zip(self._trained, starmap(perceptrons.Rows, views), strict=True))
        losses = perceptrons.gradient(self._model, self._of_logits, rows, inputs, labels, scale)
        return Gradients(values if scale is None else values.div_(scale), losses)

    def _batched(
        self,
        x: Tensor,
        inputs: Tensor,
        labels: Tensor,
        scale: "float | Tensor | None",
        exact: bool,
    ) -> Gradients:
        parameters = self._parameters(x)
        of_rows = self._exact_batched_loss if exact else self._batched_loss
        with nullcontext() if self.numerics.compile else WeightFirst():
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
        at_once = max(1, ROWS_AT_ONCE // self.d) if self.engine != "loop" else 1
        total = torch.zeros_like(row)
        loss = row.new_zeros(())
        sums = row.new_zeros(len(self.layers), dtype=torch.float64)
        for start in range(0, local, at_once):
            part = slice(start, start + at_once)
            x = row.expand(len(inputs[part]), -1)
            own = None if buffers is None else buffers[part]
            draws = None if seeds is None else seeds[part]
            some = gradient(x, inputs[part], labels[part], buffers=own, seeds=draws)
            total += some.values.sum(dim=0)
            loss += some.losses.sum()
            if squares:
                sums += layer_squares(some.values, self.layers).sum(dim=0)
        return Gradients(
            (total / local).unsqueeze(0),
            (loss / local).unsqueeze(0),
            (sums / local).unsqueeze(0) if squares else None,
        )

    def gradient_sum(
        self, row: Tensor, samples: Samples, indices: np.ndarray
    ) -> tuple[Tensor, float]:
        """Sums over samples, at `row` [d], of the gradient (float64, [d]) and of the loss."""
        total, loss_sum = torch.zeros_like(row, dtype=torch.float64), 0.0
        with self._drawing_nothing() if self.draws else nullcontext():
            for inputs, labels in chunks(samples, indices):
                gradient, loss = self._gradient_of_row(row, inputs, labels, exact=True)
                total += gradient.double() * len(labels)
                loss_sum += float(loss) * len(labels)
        return total, loss_sum

    def hessian_vector_sums(
        self,
        row: Tensor,
        vectors: Tensor,
        samples: Samples,
        indices: np.ndarray,
        seed: int | None = None,
    ) -> Tensor:
        """Sums over samples of the Hessian at `row` [d] times each of `vectors` [k, d].

        The result is float64 [k, d]. Of the training pass that draws at `seed`, or if there is
        none, of the model that draws nothing.

        Double back-propagation, exact wherever the loss is twice differentiable: finite
        differences step over the kinks of a ReLU and were measured up to 17 times off.
        """
        total = torch.zeros_like(vectors, dtype=torch.float64)
        vectors = vectors.to(self.dtype)
        with self._drawing_nothing() if self.draws and seed is None else nullcontext():
            for inputs, labels in chunks(samples, indices):
                with self._drawing(seed):
                    products = self._hessian_vectors(row, vectors, inputs, labels)
                total += products.double() * len(labels)
        return total

    def evaluate(
        self, row: Tensor, samples: Samples, indices: np.ndarray, buffers: Tensor | None = None
    ) -> Scores:
        """Loss and errors of the model `row` [d], summed over the given samples.

        Args:
            row: weights.
            samples: a data set.
            indices: which of it.
            buffers: running statistics [b] to judge it with; None: the statistics of the samples
                themselves, all that there is to a model without running ones.
        """
        loss, errors, count = 0.0, 0.0, 0
        with torch.no_grad(), self._judged() if buffers is not None else self._drawing_nothing():
            tensors = self._parameters(row) | self._named_buffers(buffers)
            for inputs, labels in chunks(samples, indices):
                logits = self._logits(tensors, inputs)
                loss += total(self._of_logits, logits, labels)
                if self.of_numbers:
                    squares = (logits.double() - labels).square()
                    errors += float((squares / self.variance(samples)).sum())
                else:
                    errors += int((logits.argmax(dim=-1) != labels).sum())
                count += labels.numel()
        return Scores(loss, errors, count)

    def variance(self, samples: Samples) -> Tensor:
        """Of the labels of a data set that are numbers, [k] float64: the loss of their mean."""
        if samples not in self._variances:
            labels = [own for _, own in chunks(samples, np.arange(len(samples)))]
            exact = torch.cat(labels).double()
            self._variances[samples] = exact.var(dim=0, correction=0)
        return self._variances[samples]

    def average_buffers(self, buffers: Tensor, comm: Communicator) -> Tensor:
        """Running statistics [b] of all learners pooled: means, and variances as E[x^2] - E[x]^2.

        Args:
            buffers: of the hosted learners, [local, b].
            comm: collective.
        """
        moments = buffers.double().clone()
        pairs = list(zip(self._buffers[::2], self._buffers[1::2], strict=True))
        for mean, var in pairs:
            moments[:, var.start : var.stop] += moments[:, mean.start : mean.stop].square()
        pooled = comm.mean(moments)
        for mean, var in pairs:
            pooled[var.start : var.stop] -= pooled[mean.start : mean.stop].square()
        return pooled.to(self.dtype)

    def recalibrated(self, row: Tensor, samples: Samples, indices: np.ndarray) -> Tensor:
        """Running statistics [b] that belong to the weights `row` [d].

        The mean over chunks of the given samples of each chunk's mean and unbiased variance, as
        in one pass over them with momentum 1/k: averaged weights make each learner's own
        statistics invalid.
        """
        total, count = torch.zeros_like(self._first_buffers, dtype=torch.float64), 0
        momenta = {m: m.momentum for m in self._model.modules() if isinstance(m, NORM)}
        for module in momenta:
            module.momentum = 1.0
        try:
            with torch.no_grad(), self._drawing_nothing():
                parameters = self._parameters(row)
                for inputs, _ in chunks(samples, indices, RECALIBRATION_CHUNK):
                    own = self.init_buffers(1)[0]
                    tensors = parameters | self._named_buffers(own)
                    self._logits(tensors, inputs)
                    total += own
                    count += 1
        finally:
            for module, momentum in momenta.items():
                module.momentum = momentum
        return (total / count).to(self.dtype)

    def _refuse_hidden_weights(
        self, seed: int, inputs: Tensor, labels: Tensor, expected: dict[str, Tensor]
    ) -> None:
        """Refuse a model whose gradient, as a function of a row, is not its own.

        Raises:
            UserError: it is not, or cannot be taken.
        """
        own = self.init_buffers(1)[0] if self.has_buffers else None
        row = self.init(seed)
        try:
            gradient, _ = self._gradient_of_row(row, inputs, labels, own, SEED, exact=True)
        except Exception as error:
            raise cannot_take(self._model, inputs, error) from error
        tied = {tie.of for tie in self._ties}
        names = [layer.name for layer in self.layers if layer.name not in tied]
        found = {
            layer.name: gradient[layer.start : layer.stop].view(layer.shape)
            for layer in self.layers
        }
        pairs = [{name: own[name] for name in names if name in own} for own in (found, expected)]
        if hidden := unlike(*pairs):
            raise UserError(
                f"model {type(self._model).__name__} reaches its parameter {hidden[0]!r} by "
                "another way than its name, as by a list that it keeps: use the parameter itself, "
                "or a torch.nn.ParameterList"
            )

    @property
    def judged_by_batch(self) -> bool:
        """Whether in evaluation, too, what a model makes of a sample depends on the others."""
        return self._judged_by_batch or (self.looks_at_batch and not self.has_buffers)

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """In this block the model is in evaluation mode."""
        self._model.eval()
        try:
            yield
        finally:
            self._model.train()

    @contextmanager
    def _drawing_nothing(self) -> Iterator[None]:
        """In this block all but BatchNorm is in evaluation mode, where nothing is drawn."""
        norms = [m for m in self._model.modules() if isinstance(m, NORM) and m.training]
        with self._judged():
            for norm in norms:
                norm.train()
            yield

    def _drawing(self, seed: int | None) -> AbstractContextManager[None]:
        """In this block a training pass draws at `seed`, if it does."""
        if seed is None or not self.draws:
            return nullcontext()
        return seeded(seed, self.numerics.device)

    def _best_engine(self) -> str:
        # A grouped convolution is slow on a CPU, and has no channels that could come last.
        slow = self.numerics.device.type == "cpu" or self.numerics.channels_last
        in_turn = (nn.RNNBase, NORM) + ((nn.modules.conv._ConvNd,) if slow else ())
        if self.draws:
            self.notes += ("gradients are taken in turn: the model draws random numbers",)
            return "loop"
        if any(isinstance(m, in_turn) for m in self._model.modules()):
            return "loop"
        if self._is_perceptron():
            return "perceptrons"
        two_rows = self.init(0).repeat(2, 1)
        inputs, labels = self.train.batch(np.zeros((2, 2), dtype=np.int64))
        parameters = self._parameters(two_rows)
        try:
            with _warnings() as caught, WeightFirst():
                losses = vmap(self._loss)(parameters, inputs, labels)
                _flat_gradient(losses, parameters, two_rows.shape[:1], None)
        # Data-dependent control flow, an operation without a batching rule, or what a model makes
        # of tensors that have no numbers.
        except Exception as error:
            self.notes += (
                "gradients are taken in turn: model and loss cannot be batched "
                f"({said(error, 100)})",
            )
            return "loop"
        # What has no batching rule, such as fused attention, is done in turn all the same.
        if slow and any("batching rule" in str(each.message) for each in caught):
            self.notes += (
                "gradients are taken in turn: on a CPU torch has no batched form of a part of the "
                "model, such as fused attention",
            )
            return "loop"
        return "vmap"

    def _is_perceptron(self) -> bool:
        """Whether the model is a perceptron by its gradients of two rows, which vmap's are, too."""
        if self._ties or self.numerics.compile or self.numerics.amp is not None:
            return False
        rows = torch.stack([self.init(seed) for seed in range(2)])
        batch = self.train.batch(np.arange(2 * SAMPLES).reshape(2, SAMPLES) % len(self.train))
        try:
            found = self._of_perceptrons(rows, *batch).values
            expected = self._batched(rows, *batch, None, exact=True).values
        except Exception:  # whatever a model makes of a dimension that it does not expect
            return False
        return not unlike({"": found}, {"": expected})

    def _compiled(self, loss: Loss) -> Loss:
        """`loss`, its forward and backward passes by torch.compile if that is wanted.

        A gradient of one learner took 0.84 of the time for ResNet-18 (batch 8; 50 s to compile),
        and 1.1 of it for MLPs of 50 and of 512 units (batch 32), on one CPU thread; 16 learners
        of the former, by vmap, 0.95. Not measured on a GPU.
        """
        return torch.compile(loss) if self.numerics.compile else loss

    def _loss(self, tensors: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        return self._of_logits(self._logits(tensors, inputs), labels)

    def _exact_loss(self, tensors: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        return self._of_logits(self._outputs(tensors, inputs).to(self.dtype), labels)

    def _outputs(self, tensors: dict[str, Tensor], inputs: Tensor) -> Tensor:
        tied = {tie.name: tie.view(tensors[tie.of]) for tie in self._ties}
        return functional_call(self._model, tensors | tied, (inputs,))

    def _logits(self, tensors: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """The logits in `dtype`, the precision that a loss needs."""
        numerics = self.numerics
        with numerics.autocast():
            tensors, inputs = numerics.laid_out(tensors), numerics.layout(inputs)
            return self._outputs(tensors, inputs).to(self.dtype)

    def _named_buffers(self, row: Tensor | None) -> dict[str, Tensor]:
        """Views of a row of running statistics [b], or nothing; a forward pass writes to them."""
        if row is None:
            return {}
        return {b.name: row[b.start : b.stop].view(b.shape) for b in self._buffers}

    def _parameters(self, x: Tensor) -> dict[str, Tensor]:
        """Leaves that are views of a row [d] or of rows [rows, d], by parameter name."""
        views = zip(self.layers, self._views(x.detach()), strict=True)
        return {layer.name: view.requires_grad_() for layer, view in views}

    def _views(self, x: Tensor) -> Iterator[Tensor]:
        """The parameters [..., *shape] in a row [d] or in rows [rows, d]."""
        columns = x.split(self._sizes, dim=-1)
        for layer, column in zip(self.layers, columns, strict=True):
            yield column.view(x.shape[:-1] + layer.shape)

    def _gradient_of_row(
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
        if self.engine == "perceptrons":
            own = None if out is None else out.unsqueeze(0)
            one = row.unsqueeze(0), inputs.unsqueeze(0), labels.unsqueeze(0)
            found = self._of_perceptrons(*one, scale, own)
            return found.values[0], found.losses[0]
        parameters = self._parameters(row)
        of_row = self._exact_loss if exact else self._step_loss
        with self._drawing(seed):
            loss = of_row(parameters | self._named_buffers(buffers), inputs, labels)
        return _flat_gradient(loss, parameters, row.shape[:0], scale, out), loss.detach()

    def check_curvature(self) -> None:
        """Try whether the loss has second derivatives.

        Raises:
            Exception: it has none.
        """
        row = self.init(0)
        batch = self.train.batch(np.zeros(2, dtype=np.int64))
        with self._drawing_nothing():
            self._hessian_vectors(row, torch.ones_like(row).unsqueeze(0), *batch, strict=True)

    def _hessian_vectors(
        self,
        row: Tensor,
        vectors: Tensor,
        inputs: Tensor,
        labels: Tensor,
        *,
        strict: bool = False,
    ) -> Tensor:
        parameters = self._parameters(row)
        leaves = list(parameters.values())
        with twice_differentiable():
            loss = self._exact_loss(parameters, inputs, labels)
        found = gradients(loss, leaves, create_graph=True)
        flat = torch.cat([g.reshape(-1) for g in found])
        if strict:
            refuse_ends(flat)
        products = []
        for v in vectors:
            parts = torch.autograd.grad(flat, leaves, v, retain_graph=True, materialize_grads=True)
            products.append(torch.cat([dense(p).reshape(-1) for p in parts]))
        return torch.stack(products)


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
