"""A split of a data set as the task sees it: batches of inputs and labels."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from torch import Tensor

CHUNK = 2_000
"""Labels per forward pass where a whole data set is walked through; as many samples, or words."""

RECALIBRATION_CHUNK = 256
"""Samples per forward pass, at most, where BatchNorm's statistics are measured."""


class Samples(Protocol):
    """A data set that gives any samples by their numbers."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs [*indices.shape, *input_shape] and labels, [*indices.shape] (int64) if classes.

        Labels that are numbers are [*indices.shape, k].
        """
        ...


def chunks(
    samples: Samples, indices: np.ndarray, labels: int = CHUNK
) -> Iterator[tuple[Tensor, Tensor]]:
    """Equal batches of at most so many labels: BatchNorm cannot be trained on a rest of one."""
    if len(indices):
        size = max(1, labels // samples.batch(indices[:1])[1].numel())
        for part in np.array_split(indices, -(-len(indices) // size)):
            yield samples.batch(part)
