"""Losses that look at the shapes before they compute: nothing is broadcast in silence."""

import torch
from torch import Tensor, nn

from gossip.errors import UserError

BINARY = (nn.BCELoss, nn.BCEWithLogitsLoss)
"""Losses of one output, for two classes."""


def first(outputs: Tensor | tuple[Tensor, ...]) -> Tensor:
    """The first output of a module that has several."""
    return outputs[0] if isinstance(outputs, tuple) else outputs


class OfNumbers(nn.Module):
    """A loss of numbers: outputs [n, 1] go with targets [n], anything else has to be alike."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, outputs: Tensor | tuple[Tensor, ...], targets: Tensor) -> Tensor:
        """The loss of outputs in the shape of the targets.

        Raises:
            UserError: the outputs have another shape, whose loss would be of broadcast pairs.
        """
        outputs = first(outputs)
        if outputs.shape != targets.shape:
            if outputs.shape != (*targets.shape, 1):
                raise UserError(
                    f"the module gives {_shape(outputs)} for a batch whose y is {_shape(targets)}: "
                    "their loss would be of broadcast pairs; make the shapes alike ([n], or [n, 1] "
                    "of the module, for one number a sample)"
                )
            outputs = outputs.squeeze(-1)
        return self.loss(outputs, targets.to(outputs.dtype))


class OfClasses(nn.Module):
    """A loss of classes, their numbers in order: outputs [n, classes], or one for two classes."""

    def __init__(self, loss: nn.Module, classes: int) -> None:
        super().__init__()
        self.loss, self.classes = loss, classes

    def forward(self, outputs: Tensor | tuple[Tensor, ...], targets: Tensor) -> Tensor:
        """The loss of the right number of outputs."""
        outputs = first(outputs)
        n = len(targets)
        if isinstance(self.loss, BINARY):
            if self.classes > 2 or outputs.shape not in ((n,), (n, 1)):
                self._refuse(outputs, n, "one output, and two classes")
            return self.loss(outputs.reshape(n), targets.to(outputs.dtype))
        if outputs.shape != (n, self.classes):
            self._refuse(outputs, n, f"an output for each class, [{n}, {self.classes}]")
        return self.loss(outputs, targets)

    def _refuse(self, outputs: Tensor, n: int, needed: str) -> None:
        raise UserError(
            f"the module gives {_shape(outputs)} for {n} samples of {self.classes} classes, and "
            f"{type(self.loss).__name__} needs {needed}: change the module's last layer, by a "
            "module__x parameter"
        )


def readable(outputs: Tensor) -> Tensor:
    """In floats that NumPy knows."""
    return outputs.float() if outputs.dtype == torch.bfloat16 else outputs


def probabilities(loss: nn.Module, outputs: Tensor) -> Tensor:
    """[n, classes] from the outputs that the loss is of; as they are if the loss is not known."""
    if isinstance(loss, nn.CrossEntropyLoss):
        return torch.softmax(outputs, dim=-1)
    if isinstance(loss, nn.NLLLoss):
        return outputs.exp()
    if isinstance(loss, BINARY):
        one = outputs.reshape(-1)
        one = torch.sigmoid(one) if isinstance(loss, nn.BCEWithLogitsLoss) else one
        return torch.stack([1 - one, one], dim=1)
    return outputs


def _shape(tensor: Tensor) -> str:
    return f"[{', '.join(map(str, tensor.shape))}]"
