"""The contract of an engine, and how a batch is cut for it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from gossip.engines.problem import Problem
from gossip.engines.sums import Sums


class MicroBatch(NamedTuple):
    """The samples of one training pass, and the seed of what the module draws in it."""

    indices: np.ndarray
    seed: int = 0


class Engine(Protocol):
    """Sums of gradients and losses over samples, at weights that are sent along.

    The arithmetic is `gossip.engines.sums`, wherever it is done; a batch's sums are the same for
    any number of workers, to rounding.
    """

    workers: int
    """How many took part in the last call."""

    def hold(self, problem: Problem) -> None:
        """Give every worker the module, the loss and the data, once for all calls that follow."""
        ...

    def scale(self, workers: int) -> None:
        """Ask for so many workers from now on; fewer do the same until more have come."""
        ...

    def gradient(self, weights: Mapping[str, Tensor], batch: Sequence[MicroBatch]) -> Sums:
        """Sums over a batch of the gradient and the loss, see `gradient_sums`."""
        ...

    def loss(self, weights: Mapping[str, Tensor], batch: Sequence[MicroBatch]) -> Sums:
        """Sums over samples of the loss of the module as it is judged, see `loss_sums`."""
        ...

    def close(self, *, keep_workers: bool = False) -> None:
        """Let go of the data, and of the workers that were asked for, unless more is to come."""
        ...


def parts(indices: np.ndarray, size: int) -> list[np.ndarray]:
    """Consecutive parts of at most `size` samples, as equal as can be, in their order.

    BatchNorm's statistics and Dropout's masks belong to a part, and the parts to the batch alone:
    so neither depends on the number of workers.
    """
    return np.array_split(indices, max(1, -(-len(indices) // size)))


def workers_for(batch_size: int, samples_per_worker: int, least: int, most: int) -> int:
    """P = ceil(B / samples per worker), from `least` to `most`."""
    return min(most, max(least, -(-batch_size // samples_per_worker)))
