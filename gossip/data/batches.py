"""From sample numbers to tensors: the data stays raw and shared, only a batch is scaled."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gossip.data.dataset import Dataset, Scale, are_tokens
from gossip.errors import UserError

TARGET_SCALINGS = ("standardised", "raw")
"""What `--targets` offers: mean 0 and standard deviation 1 of each number; as published."""
INPUT_SCALINGS = ("unit", "standardised", "raw")
"""What `--inputs` offers: [0, 1]; mean 0 and standard deviation 1; as published."""


@dataclass(frozen=True, eq=False)
class Split:
    """The training, validation or test set, as tensors on demand.

    The whole of MNIST in float32 is 188 MB for each of 16 processes; the memory-mapped bytes are
    47 MB for all of them. So a batch is scaled when it is drawn: (raw - shift) / factor.
    """

    inputs: np.ndarray
    """Raw, [M, *shape]; token ids are integers."""
    labels: np.ndarray
    """[N] or [N, T] int64, or numbers [N, k], those of the samples of this split."""
    shift: Tensor
    """Broadcasts over `shape`."""
    factor: Tensor
    dtype: torch.dtype
    where: np.ndarray | None = None
    """[N], the rows of `inputs` that belong to this split; None: all of them."""

    def __len__(self) -> int:
        """Number of samples N."""
        return len(self.labels)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """The samples at indices [...], for example [local, B].

        Returns:
            inputs [..., *shape], scaled, or token ids (int64) as they are; labels [...] or
            [..., T] int64, or numbers [..., k]. Row-major, whatever the order of the data: a
            transposed array of images would have its convolutions computed with the channels last,
            see `gossip.task.overrun`.
        """
        rows = indices if self.where is None else self.where[indices]
        x = torch.from_numpy(np.ascontiguousarray(self.inputs[rows]))
        labels = torch.from_numpy(self.labels[indices])
        if are_tokens(self.inputs):
            return x.long(), labels
        # Indexing with an array copies, so the data itself is not what is scaled in place.
        return x.to(self.dtype).sub_(self.shift).div_(self.factor), labels


class Splits(NamedTuple):
    """What `splits` makes of a dataset."""

    train: Split
    test: Split
    validation: Split | None
    """None if nothing was held out."""


def splits(
    dataset: Dataset,
    scaling: str = "unit",
    dtype: torch.dtype = torch.float32,
    validation: int = 0,
    targets: str = "standardised",
) -> Splits:
    """Training and test set of a dataset, scaled as they are drawn, and a validation set if wanted.

    Args:
        dataset: raw data.
        scaling: one of `INPUT_SCALINGS`; validation and test set are scaled by the numbers of the
            published training set. Token ids are not scaled.
        dtype: of the inputs, unless they are token ids.
        validation: how many of the training samples to hold out; see `held_out`.
        targets: one of `TARGET_SCALINGS`, of labels that are numbers.

    Raises:
        UserError: no such scaling, or not that many samples; a label that is always the same.
    """
    shift, factor = (
        torch.as_tensor(value, dtype=dtype) for value in shift_and_factor(dataset.scale, scaling)
    )
    inputs, labels, test_labels = dataset.train_inputs, dataset.train_labels, dataset.test_labels
    if dataset.are_numbers:
        labels, test_labels = _scaled(labels, test_labels, targets, dtype, dataset.name)
    train = Split(np.asarray(inputs), labels, shift, factor, dtype)
    test = Split(np.asarray(dataset.test_inputs), test_labels, shift, factor, dtype)
    if validation == 0:
        return Splits(train, test, None)
    held = held_out(labels, validation)
    kept = np.setdiff1d(np.arange(len(labels)), held)
    return Splits(
        replace(train, labels=labels[kept], where=kept),
        test,
        replace(train, labels=labels[held], where=held),
    )


def _scaled(
    train: np.ndarray, test: np.ndarray, targets: str, dtype: torch.dtype, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Labels [N, k] that are numbers, scaled by those of the training set."""
    exact = train.astype(np.float64)
    mean, std = exact.mean(axis=0), exact.std(axis=0)
    if not (std > 0).all():
        raise UserError(
            f"dataset {name!r}: label {int(np.argmin(std))} of {len(std)} is the same for all "
            "training samples: there is nothing to be predicted; leave it away"
        )
    shift, factor = (mean, std) if targets == "standardised" else (0.0, 1.0)
    single = np.float32 if dtype == torch.float32 else np.float64
    first, second = (((part - shift) / factor).astype(single) for part in (exact, test))
    return first, second


def held_out(labels: np.ndarray, count: int) -> np.ndarray:
    """Which training samples the validation set takes: [count], ascending.

    Each class gives its share, rounded up or down, evenly spread over the file; where each sample
    has T labels, the samples themselves are evenly spread. No random numbers: the validation set
    is the same for every seed and on every machine.

    Raises:
        UserError: fewer than one, or nothing would be left to train on.
    """
    if not 0 < count < len(labels):
        raise UserError(
            f"validation={count}: must be 0 (none) or more, and fewer than the {len(labels)} "
            "training samples"
        )
    order = np.argsort(labels, kind="stable") if labels.ndim == 1 else np.arange(len(labels))
    return np.sort(order[np.arange(count) * len(labels) // count])


def shift_and_factor(scale: Scale, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers in (raw - shift) / factor, float64, each broadcasting over a sample's shape.

    Raises:
        UserError: no such scaling.
    """
    span = scale.high - scale.low
    if scaling == "unit":
        return np.asarray(scale.low), np.asarray(span)
    if scaling == "standardised":
        return np.asarray(scale.low + span * scale.mean), np.asarray(span * scale.std)
    if scaling == "raw":
        return np.asarray(0.0), np.asarray(1.0)
    raise UserError(f"unknown input scaling {scaling!r}; there are {', '.join(INPUT_SCALINGS)}")
