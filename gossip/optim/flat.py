"""torch.optim on flat rows: the increment of any optimizer, its state local to each learner."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gossip.task import Layer

Make = Callable[[list[dict[str, list[nn.Parameter]]]], torch.optim.Optimizer]
"""Makes a torch optimizer over parameter groups, for example partial(torch.optim.SGD, lr=1)."""


class FlatOptimizer:
    r"""An optimizer step of every row at once, as a new matrix.

    .. math:: x_j + u_j, \quad u_j = \mathrm{OPT}_j.step(x_j, g_j) - x_j

    Weight decay, momentum and all other state see the learner's own weights x_j (SPEC 2.2).

    Element-wise optimizers (SGD, Adam, ...) act on the whole [rows, d] matrix as one parameter:
    the same arithmetic as one optimizer per learner, in one call; with a learning rate per layer,
    on the columns of each layer. Optimizers that look at a tensor as a whole (Adafactor, LARS)
    get one parameter per learner and layer, a view of the row in its own shape; so do all with a
    learning rate per learner and layer.

    Args:
        make: makes the torch optimizer.
        layers: the columns of each parameter tensor.
        elementwise: whether `make`'s optimizer treats every element alike.
    """

    def __init__(self, make: Make, layers: Sequence[Layer], *, elementwise: bool = True) -> None:
        self._make = make
        self._layers = layers
        self._elementwise = elementwise
        self._parameters: list[list[nn.Parameter]] = []
        self._optimizer: torch.optim.Optimizer | None = None

    def step(self, x: Tensor, gradients: Tensor, lr: "float | Tensor") -> Tensor:
        """The stepped weights x + u, [rows, d], with x and gradients [rows, d] left as they are.

        Args:
            x: weights, [rows, d].
            gradients: at x, [rows, d].
            lr: one number, one per layer, [layers], or one per learner and layer,
                [rows, layers]; of the same kind at every step, the state being split by it.
        """
        stepped = x.clone()
        per = lr.ndim if isinstance(lr, Tensor) else 0
        groups, gradient_groups = self._split(stepped, per), self._split(gradients, per)
        if self._optimizer is None:
            self._parameters = [[nn.Parameter(part) for part in group] for group in groups]
            self._optimizer = self._make([{"params": group} for group in self._parameters])
        for parameters, parts, grads in zip(self._parameters, groups, gradient_groups, strict=True):
            for parameter, part, gradient in zip(parameters, parts, grads, strict=True):
                parameter.data, parameter.grad = part, gradient
        # All rates in one transfer: the device is waited for once, not once per group.
        rates = torch.as_tensor(lr).flatten().tolist() if per else [float(lr)] * len(groups)
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._optimizer.step()
        return stepped

    def _split(self, x: Tensor, per: int) -> list[list[Tensor]]:
        """Views of x that are parameters, in the groups that have a learning rate each.

        Args:
            x: [rows, d].
            per: dimensions of the learning rate, 0, 1 ([layers]) or 2 ([rows, layers]).
        """
        if self._elementwise and per == 0:
            return [[x]]
        if self._elementwise and per == 1:
            return [[x[:, layer.start : layer.stop]] for layer in self._layers]
        if per == 2:
            return [[self._part(row, layer)] for row in x for layer in self._layers]
        return [[self._part(row, layer) for row in x] for layer in self._layers]

    @staticmethod
    def _part(row: Tensor, layer: Layer) -> Tensor:
        """The view of a row [d] that is this layer, in its own shape."""
        return row[layer.start : layer.stop].view(layer.shape)
