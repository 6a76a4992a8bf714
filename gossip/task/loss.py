"""The loss of outputs and labels: cross-entropy, mean square, or a function of the user's."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from gossip.errors import UserError, load_object, said

CROSS_ENTROPY = "cross-entropy"
"""What `--loss` is by default."""

MEAN_SQUARE = "mse"
"""What it is for labels that are numbers."""
LOSSES = (CROSS_ENTROPY, MEAN_SQUARE)

OfLogits = Callable[[Tensor, Tensor], Tensor]
"""(logits [..., classes], labels [...]) -> the mean loss over the labels; of labels that are
numbers, outputs and labels [..., k]."""

_TOLERANCE = 1e-3
"""Of a mean over samples against the mean of theirs, in the precision of a run."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over all labels, [batch] or [batch, positions]; logits have the classes last."""
    return by_label(logits, labels).mean()


def mean_square(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean of (y - ŷ)^2 over all numbers of outputs and labels, both [..., k]."""
    return (outputs - labels).square().mean()


def total(loss: OfLogits, logits: Tensor, labels: Tensor) -> float:
    """The sum of the losses over all labels."""
    if loss is cross_entropy:
        return float(by_label(logits, labels).sum())
    return float(loss(logits, labels)) * labels.numel()


def by_label(logits: Tensor, labels: Tensor) -> Tensor:
    """For each label, in one row.

    Not `torch.nn.functional.cross_entropy`: over learners (vmap) torch takes that apart in Python,
    in each pass, and imports sympy for it.
    """
    log_probabilities = log_softmax(logits.flatten(0, -2), dim=-1)
    return -log_probabilities.gather(1, labels.flatten().unsqueeze(1)).squeeze(1)


def loss_of(name: str) -> OfLogits:
    """One of `LOSSES`, or the function behind `module:function`.

    Raises:
        UserError: there is none.
    """
    if ":" in name:
        return load_object(name, "loss")
    return mean_square if name == MEAN_SQUARE else cross_entropy


def check(name: str, dataset: str, *, are_numbers: bool) -> None:
    """Refuse a loss that is none of such labels.

    Args:
        name: of the loss, as in `loss_of`.
        dataset: what the data is called.
        are_numbers: whether its labels are.

    Raises:
        UserError: it is not.
    """
    if are_numbers and name == CROSS_ENTROPY:
        raise UserError(
            f"loss {CROSS_ENTROPY} is one of classes, and the labels of dataset {dataset!r} are "
            f"real numbers: use --loss {MEAN_SQUARE} or module:function, or make integers of them"
        )
    if not are_numbers and name == MEAN_SQUARE:
        raise UserError(
            f"loss {MEAN_SQUARE} is one of real numbers, and the labels of dataset {dataset!r} are "
            f"classes: use --loss {CROSS_ENTROPY}, or make floats of them"
        )


def refuse_no_mean(loss: OfLogits, logits: Tensor, labels: Tensor) -> None:
    """Refuse a loss that is no mean over samples: shares of a data set could not be added up.

    Args:
        loss: the user's.
        logits: of some samples.
        labels: theirs.

    Raises:
        UserError: it is not, is not finite numbers, or raises.
    """
    name = f"loss {getattr(loss, '__name__', type(loss).__name__)}"
    try:
        whole = loss(logits, labels)
        each = [loss(logits[k : k + 1], labels[k : k + 1]) for k in range(len(labels))]
    # What a loss makes of its arguments is its own affair.
    except Exception as error:
        raise UserError(
            f"{name} cannot take logits {list(logits.shape)} and labels {list(labels.shape)}: "
            f"{said(error)}"
        ) from error
    if not all(isinstance(value, Tensor) and value.ndim == 0 for value in (whole, *each)):
        raise UserError(f"{name} does not give one number: give the mean over the samples")
    mean = torch.stack(each).double().mean()
    if not bool((whole.double() - mean).abs() <= _TOLERANCE * mean.abs().clamp(min=1e-6)):
        raise UserError(
            f"{name} is no mean over samples: of {len(labels)} it gives {float(whole):.4g}, and "
            f"{float(mean):.4g} in the mean of each alone; sums over shares of the data need one"
        )
