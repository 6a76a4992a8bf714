r"""The loss as a function of weights: L on fixed training samples, its gradient and its Hessian.

The samples are evenly spread over the training set and the same for all runs on it. BatchNorm takes
the statistics of the samples themselves, anew at every point; Dropout drops nothing.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from gossip.monitor.lipschitz import probe_of
from gossip.task import Task


class Surface(Protocol):
    """A loss, twice differentiable."""

    @property
    def d(self) -> int:
        """Number of weights."""
        ...

    def loss(self, row: Tensor) -> float:
        """L at `row` [d]."""
        ...

    def gradient(self, row: Tensor) -> Tensor:
        """Its gradient there, [d] float64."""
        ...

    def curvature(self, row: Tensor, v: Tensor) -> Tensor:
        """The Hessian there times v, [d] float64."""
        ...


@dataclass(frozen=True)
class TrainingLoss:
    """The mean loss of a task on some training samples."""

    task: Task
    indices: np.ndarray
    """Which samples."""

    @property
    def d(self) -> int:
        """See `Surface.d`."""
        return self.task.d

    def loss(self, row: Tensor) -> float:
        """See `Surface.loss`."""
        found = self.task.evaluate(row.to(self.task.dtype), self.task.train, self.indices)
        return found.loss / found.labels

    def gradient(self, row: Tensor) -> Tensor:
        """See `Surface.gradient`."""
        row = row.to(self.task.dtype)
        total, _ = self.task.gradient_sum(row, self.task.train, self.indices)
        return total / len(self.indices)

    def curvature(self, row: Tensor, v: Tensor) -> Tensor:
        """See `Surface.curvature`: by double back-propagation, exact."""
        row, vectors = row.to(self.task.dtype), v.unsqueeze(0)
        sums = self.task.hessian_vector_sums(row, vectors, self.task.train, self.indices)
        return sums[0] / len(self.indices)


def training_loss(task: Task, samples: int) -> TrainingLoss:
    """The loss on so many samples, or on all if there are fewer."""
    return TrainingLoss(task, probe_of(len(task.train), samples))
