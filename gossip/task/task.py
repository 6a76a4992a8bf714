"""Model and loss as functions of a flat row, for many learners at once."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gossip.comm.base import Communicator
from gossip.errors import UserError, one_of
from gossip.task import statistics
from gossip.task.building import cannot_take, converted, made, refuse_unlike
from gossip.task.hessians import hessian_vectors
from gossip.task.layers import layers
from gossip.task.likeness import unlike
from gossip.task.loss import OfLogits, cross_entropy, total
from gossip.task.numerics import PLAIN, Numerics
from gossip.task.overrun import spared
from gossip.task.parameters import coordinates
from gossip.task.row_gradients import LOOP, VMAP, Gradients, RowGradients
from gossip.task.row_model import RowModel
from gossip.task.samples import Samples, chunks
from gossip.task.trial import NEEDED, SAMPLES, SEED, conduct


class Scores(NamedTuple):
    """Sums over labels, so that shares of a data set can be added up."""

    loss: float
    errors: float
    """Of classes: how many are wrong; of numbers: the squared distances in units of the variance
    of the labels of the whole data set, so that the mean is 1 - R^2."""
    labels: int
    """Number of predictions: one per sample, or one per token, or number."""


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
        engine: how gradients of several rows are computed: "vmap" (one batched pass of any model),
            "loop" (one row after the other), or "auto": "perceptrons" if the model is one (a
            batched pass of linear maps, see `gossip.task.perceptrons`); else vmap unless it cannot
            be batched, or has what on a CPU is slower that way: convolutions, which become one
            grouped convolution, and whatever torch has no batching rule for, as fused attention.
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
        parameters, ties = coordinates(model, f"model {type(model).__name__}")
        self.layers = tuple(layers(parameters))
        self.d = self.layers[-1].stop
        twin = converted(twin, numerics, dtype)
        seen = conduct(twin, inputs, labels, loss, num_classes)
        self.draws, self.looks_at_batch = seen.draws, seen.looks_at_batch
        self._judged_by_batch = seen.judged_by_batch
        if seen.cramped:
            self.numerics, self.notes = spared(numerics)
        self._model = RowModel(
            converted(model, numerics, dtype),
            self.layers,
            ties,
            loss,
            dtype=dtype,
            numerics=self.numerics,
            draws=seen.draws,
        )
        self._gradients = RowGradients(self._model, one_by_one=seen.looks_at_batch)
        first = inputs[:SAMPLES], labels[:SAMPLES]
        self._refuse_hidden_weights(seed, *first, seen.gradients)
        if engine == "auto":
            pair = np.arange(2 * SAMPLES).reshape(2, -1) % len(train)
            self.notes += self._gradients.choose(self._two_rows, *train.batch(pair))
        else:
            self._gradients.engine = one_of((VMAP, LOOP), engine, "engine")

    def _two_rows(self) -> Tensor:
        return torch.stack([self.init(seed) for seed in range(2)])

    @property
    def engine(self) -> str:
        """How gradients of several rows are computed."""
        return self._gradients.engine

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
        return bool(self._model.buffers)

    def init_buffers(self, local: int) -> Tensor:
        """Running statistics of `local` new learners, [local, b]."""
        return self._model.first_buffers.repeat(local, 1)

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
        return self._gradients.at(
            x,
            inputs,
            labels,
            squares=squares,
            buffers=buffers,
            seeds=seeds,
            scale=scale,
            exact=exact,
        )

    def gradient_sum(
        self, row: Tensor, samples: Samples, indices: np.ndarray
    ) -> tuple[Tensor, float]:
        """Sums over samples, at `row` [d], of the gradient (float64, [d]) and of the loss."""
        total, loss_sum = torch.zeros_like(row, dtype=torch.float64), 0.0
        with self._model.drawing_nothing() if self.draws else nullcontext():
            for inputs, labels in chunks(samples, indices):
                gradient, loss = self._gradients.of_row(row, inputs, labels, exact=True)
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
        with self._model.drawing_nothing() if self.draws and seed is None else nullcontext():
            for inputs, labels in chunks(samples, indices):
                with self._model.drawing(seed):
                    products = hessian_vectors(self._model, row, vectors, inputs, labels)
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
        with (
            torch.no_grad(),
            self._model.judged() if buffers is not None else self._model.drawing_nothing(),
        ):
            tensors = self._model.parameters(row) | self._model.named_buffers(buffers)
            for inputs, labels in chunks(samples, indices):
                logits = self._model.logits(tensors, inputs)
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
        """Running statistics [b] of all learners pooled, from [local, b]. Collective."""
        return statistics.pooled(self._model, buffers, comm)

    def recalibrated(self, row: Tensor, samples: Samples, indices: np.ndarray) -> Tensor:
        """Running statistics [b] of weights `row` [d] on the given samples, in their chunks."""
        return statistics.recalibrated(self._model, row, samples, indices)

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
            gradient, _ = self._gradients.of_row(row, inputs, labels, own, SEED, exact=True)
        except Exception as error:
            raise cannot_take(self._model.module, inputs, error) from error
        tied = {tie.of for tie in self._model.ties}
        names = [layer.name for layer in self.layers if layer.name not in tied]
        found = {
            layer.name: gradient[layer.start : layer.stop].view(layer.shape)
            for layer in self.layers
        }
        pairs = [{name: own[name] for name in names if name in own} for own in (found, expected)]
        if hidden := unlike(*pairs):
            raise UserError(
                f"model {type(self._model.module).__name__} reaches its parameter {hidden[0]!r} by "
                "another way than its name, as by a list that it keeps: use the parameter itself, "
                "or a torch.nn.ParameterList"
            )

    @property
    def judged_by_batch(self) -> bool:
        """Whether in evaluation, too, what a model makes of a sample depends on the others."""
        return self._judged_by_batch or (self.looks_at_batch and not self.has_buffers)

    def check_curvature(self) -> None:
        """Try whether the loss has second derivatives.

        Raises:
            Exception: it has none.
        """
        row = self.init(0)
        batch = self.train.batch(np.zeros(2, dtype=np.int64))
        with self._model.drawing_nothing():
            hessian_vectors(
                self._model, row, torch.ones_like(row).unsqueeze(0), *batch, strict=True
            )
