"""From sample numbers to tensors: the data stays raw and shared, only a batch is scaled."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossip.data.dataset import Dataset, Scale
from gossip.errors import UserError

INPUT_SCALINGS = ("unit", "standardised", "raw")
"""What `--inputs` offers: [0, 1]; mean 0 and standard deviation 1; as published."""


@dataclass(frozen=True, eq=False)
class Split:
    """The training or the test set, as tensors on demand.

    The whole of MNIST in float32 is 188 MB for each of 16 processes; the memory-mapped bytes are
    47 MB for all of them. So a batch is scaled when it is drawn: (raw - shift) / factor.
    """

    inputs: np.ndarray
    """Raw, [N, *shape]."""
    labels: np.ndarray
    """[N] int64."""
    shift: Tensor
    """Broadcasts over `shape`."""
    factor: Tensor
    dtype: torch.dtype

    def __len__(self) -> int:
        """Number of samples N."""
        return len(self.labels)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """The samples at indices [...], for example [local, B].

        Returns:
            inputs [..., *shape], scaled, and labels [...] int64.
        """
        # Indexing with an array copies, so the data itself is not what is scaled in place.
        x = torch.from_numpy(self.inputs[indices]).to(self.dtype)
        return x.sub_(self.shift).div_(self.factor), torch.from_numpy(self.labels[indices])


def splits(
    dataset: Dataset, scaling: str = "unit", dtype: torch.dtype = torch.float32
) -> tuple[Split, Split]:
    """Training and test set of a dataset, scaled as they are drawn.

    Args:
        dataset: raw data.
        scaling: one of `INPUT_SCALINGS`; the test set is scaled by the training set's numbers.
        dtype: of the inputs.

    Raises:
        UserError: no such scaling.
    """
    shift, factor = (
        torch.as_tensor(value, dtype=dtype) for value in shift_and_factor(dataset.scale, scaling)
    )
    train = Split(np.asarray(dataset.train_inputs), dataset.train_labels, shift, factor, dtype)
    test = Split(np.asarray(dataset.test_inputs), dataset.test_labels, shift, factor, dtype)
    return train, test


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
