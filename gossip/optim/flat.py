"""torch.optim on flat rows: the increment of any optimizer, its state local to each learner."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gossip.task import Layer

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
"""Makes a torch optimizer over the given parameters, for example partial(torch.optim.SGD, lr=1)."""


class FlatOptimizer:
    r"""An optimizer step of every row at once, as a new matrix.

    .. math:: x_j + u_j, \quad u_j = \mathrm{OPT}_j.step(x_j, g_j) - x_j

    Weight decay, momentum and all other state see the learner's own weights x_j (SPEC 2.2).

    Element-wise optimizers (SGD, Adam, ...) act on the whole [rows, d] matrix as one parameter:
    the same arithmetic as one optimizer per learner, in one call. Optimizers that look at a
    tensor as a whole (Adafactor, Muon, LBFGS-free trust ratios) get one parameter per learner
    and layer, a view of the row in its own shape.

    Args:
        make: makes the torch optimizer.
        layers: the columns of each parameter tensor.
        elementwise: whether `make`'s optimizer treats every element alike.
    """

    def __init__(self, make: Make, layers: Sequence[Layer], *, elementwise: bool = True) -> None:
        self._make = make
        self._layers = layers
        self._elementwise = elementwise
        self._parameters: list[nn.Parameter] = []
        self._optimizer: torch.optim.Optimizer | None = None

    def step(self, x: Tensor, gradients: Tensor, lr: "float | Tensor") -> Tensor:
        """X + u, [rows, d], with x and gradients [rows, d] left as they are."""
        stepped = x.clone()
        parts, gradient_parts = self._split(stepped), self._split(gradients)
        if self._optimizer is None:
            self._parameters = [nn.Parameter(part) for part in parts]
            self._optimizer = self._make(self._parameters)
        for parameter, part, gradient in zip(self._parameters, parts, gradient_parts, strict=True):
            parameter.data, parameter.grad = part, gradient
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        return stepped

    def _split(self, x: Tensor) -> list[Tensor]:
        if self._elementwise:
            return [x]
        return [
            row[layer.start : layer.stop].view(layer.shape) for row in x for layer in self._layers
        ]
