"""Model and loss as functions of a flat row: the only place that knows how a row is a model."""

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from gossip.errors import UserError

CHUNK = 2_000
"""Samples per forward pass where a whole data set is walked through."""


class Samples(Protocol):
    """A data set that gives any samples by their numbers."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs [*indices.shape, *input_shape] and labels [*indices.shape] (int64)."""
        ...


class Layer(NamedTuple):
    """One parameter tensor: columns start..stop of a flat row."""

    name: str
    start: int
    stop: int
    shape: torch.Size


class Scores(NamedTuple):
    """Sums over samples, so that shares of a data set can be added up."""

    loss: float
    errors: int
    samples: int


class Task:
    """A classification task: mean cross-entropy of a model on batches.

    A flat row holds the model's parameters in `named_parameters()` order, each row-major. All
    methods are functions of rows and samples; a task keeps no weights.

    Args:
        build: makes the model, drawing its initial weights from torch's generator.
        train: training samples.
        test: test samples.
        dtype: of rows and inputs.
        engine: how gradients of several rows are computed: "vmap" (one batched pass), "loop"
            (one row after the other), or "auto": vmap unless the model cannot be batched, or
            convolves, which on a CPU is slower as one grouped convolution than in turn.
        num_classes: outputs the model must have at least; not looked at if 0.

    Raises:
        UserError: the model keeps running statistics or draws random numbers (BatchNorm,
            Dropout), has no parameters, or does not give logits [batch, num_classes].
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
    ) -> None:
        self._build = build
        self.train, self.test, self.dtype = train, test, dtype
        self._model = build().to(dtype)
        _refuse_hidden_state(self._model)
        self.layers = tuple(_layers(self._model))
        self.d = self.layers[-1].stop
        self._sizes = [layer.stop - layer.start for layer in self.layers]
        self._batched_loss = vmap(self._loss)
        self._check_outputs(num_classes)
        self.engine = self._best_engine() if engine == "auto" else engine

    def init(self, seed: int) -> Tensor:
        """The model's own initial weights under `seed`, [d]; the same numbers in every dtype."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._build()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).to(self.dtype)

    def gradient(self, x: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of the mean loss of each row on its own batch.

        Args:
            x: [rows, d]; one row is evaluated on the batches of all local learners together,
                which for equal batches is the average of their gradients.
            inputs: [local, batch, *input_shape].
            labels: [local, batch].

        Returns:
            Gradients [rows, d] and losses [rows], detached.
        """
        rows = len(x)
        if rows == 1:
            gradient, loss = self._gradient_of_row(x[0], inputs.flatten(0, 1), labels.flatten())
            return gradient.unsqueeze(0), loss.unsqueeze(0)
        if self.engine == "loop":
            pairs = [self._gradient_of_row(*row) for row in zip(x, inputs, labels, strict=True)]
            return torch.stack([g for g, _ in pairs]), torch.stack([loss for _, loss in pairs])
        parameters = self._parameters(x)
        losses = self._batched_loss(parameters, inputs, labels)
        gradients = _gradients(losses.sum(), parameters)
        return torch.cat([g.reshape(rows, -1) for g in gradients], dim=1), losses.detach()

    def gradient_sum(
        self, row: Tensor, samples: Samples, indices: np.ndarray
    ) -> tuple[Tensor, float]:
        """Sums over samples, at `row` [d], of the gradient (float64, [d]) and of the loss."""
        total, loss_sum = torch.zeros_like(row, dtype=torch.float64), 0.0
        for inputs, labels in _chunks(samples, indices):
            gradient, loss = self._gradient_of_row(row, inputs, labels)
            total += gradient.double() * len(labels)
            loss_sum += float(loss) * len(labels)
        return total, loss_sum

    def hessian_vector_sums(
        self, row: Tensor, vectors: Tensor, samples: Samples, indices: np.ndarray
    ) -> Tensor:
        """Sums over samples of the Hessian at `row` [d] times each of `vectors` [k, d].

        The result is float64 [k, d].

        Double back-propagation, exact wherever the loss is twice differentiable: finite
        differences step over the kinks of a ReLU and were measured up to 17 times off.
        """
        total = torch.zeros_like(vectors, dtype=torch.float64)
        vectors = vectors.to(self.dtype)
        for inputs, labels in _chunks(samples, indices):
            total += self._hessian_vectors(row, vectors, inputs, labels).double() * len(labels)
        return total

    def evaluate(self, row: Tensor, samples: Samples, indices: np.ndarray) -> Scores:
        """Loss and errors of the model `row` [d], summed over the given samples."""
        loss, errors = 0.0, 0
        with torch.no_grad():
            parameters = self._parameters(row)
            for inputs, labels in _chunks(samples, indices):
                logits = functional_call(self._model, parameters, (inputs,))
                loss += float(cross_entropy(logits, labels, reduction="sum"))
                errors += int((logits.argmax(dim=-1) != labels).sum())
        return Scores(loss, errors, len(indices))

    def _check_outputs(self, num_classes: int) -> None:
        inputs, _ = self.train.batch(np.zeros(1, dtype=np.int64))
        with torch.no_grad():
            outputs = self._model(inputs)
        if outputs.ndim != 2 or len(outputs) != 1 or outputs.shape[1] < num_classes:
            raise UserError(
                f"model {type(self._model).__name__} gives outputs of shape "
                f"{list(outputs.shape)} for one sample of shape {list(inputs.shape[1:])}; needed "
                f"are logits, [1, {num_classes or 'classes'}]"
            )

    def _best_engine(self) -> str:
        if any(isinstance(m, nn.modules.conv._ConvNd) for m in self._model.modules()):
            return "loop"
        two_rows = self.init(0).repeat(2, 1)
        inputs, labels = self.train.batch(np.zeros((2, 1), dtype=np.int64))
        try:
            self._batched_loss(self._parameters(two_rows), inputs, labels)
        except RuntimeError:  # data-dependent control flow, an operation without a batching rule
            return "loop"
        return "vmap"

    def _loss(self, parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(functional_call(self._model, parameters, (inputs,)), labels)

    def _parameters(self, x: Tensor) -> dict[str, Tensor]:
        """Leaves that are views of a row [d] or of rows [rows, d], by parameter name."""
        columns = x.detach().split(self._sizes, dim=-1)
        return {
            layer.name: c.view(*x.shape[:-1], *layer.shape).requires_grad_()
            for layer, c in zip(self.layers, columns, strict=True)
        }

    def _gradient_of_row(
        self, row: Tensor, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        parameters = self._parameters(row)
        loss = self._loss(parameters, inputs, labels)
        gradients = _gradients(loss, parameters)
        return torch.cat([g.reshape(-1) for g in gradients]), loss.detach()

    def _hessian_vectors(
        self, row: Tensor, vectors: Tensor, inputs: Tensor, labels: Tensor
    ) -> Tensor:
        parameters = self._parameters(row)
        leaves = list(parameters.values())
        loss = self._loss(parameters, inputs, labels)
        gradients = _gradients(loss, parameters, create_graph=True)
        flat = torch.cat([g.reshape(-1) for g in gradients])
        products = []
        for v in vectors:
            parts = torch.autograd.grad(flat, leaves, v, retain_graph=True, materialize_grads=True)
            products.append(torch.cat([p.reshape(-1) for p in parts]))
        return torch.stack(products)


def _gradients(
    loss: Tensor, parameters: dict[str, Tensor], *, create_graph: bool = False
) -> tuple[Tensor, ...]:
    """Gradients in parameter order; zeros for a parameter that the loss does not use."""
    leaves = list(parameters.values())
    return torch.autograd.grad(loss, leaves, create_graph=create_graph, materialize_grads=True)


def _chunks(samples: Samples, indices: np.ndarray) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(indices), CHUNK):
        yield samples.batch(indices[start : start + CHUNK])


def _layers(model: nn.Module) -> Iterator[Layer]:
    stop = 0
    for name, parameter in model.named_parameters():
        start, stop = stop, stop + prod(parameter.shape)
        yield Layer(name, start, stop, parameter.shape)
    if not stop:
        raise UserError(f"model {type(model).__name__} has no parameters: nothing to train")


def _refuse_hidden_state(model: nn.Module) -> None:
    """Running statistics and dropout would make a gradient depend on more than (row, batch)."""
    norm, dropout = nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd
    for name, module in model.named_modules():
        if isinstance(module, norm) and module.track_running_stats:
            raise UserError(
                f"model layer {name!r} ({type(module).__name__}) keeps running statistics, which "
                "are not supported yet; use GroupNorm or LayerNorm, or track_running_stats=False"
            )
        if isinstance(module, dropout) and module.p > 0:
            raise UserError(
                f"model layer {name!r} ({type(module).__name__}) draws random numbers in each "
                "forward pass, which is not supported yet; set p=0"
            )
