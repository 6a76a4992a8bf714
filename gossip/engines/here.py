"""The engine that is this process: the reference of all others."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from gossip.engines.base import MicroBatch
from gossip.engines.problem import Problem
from gossip.engines.sums import Sums, gradient_sums, loss_sums


class Here:
    """All parts one after the other, in this process; see `Engine`."""

    workers = 1

    def hold(self, problem: Problem) -> None:
        """Keep the problem."""
        self._problem = problem

    def scale(self, workers: int) -> None:
        """There is one, whatever is asked for."""

    def gradient(self, weights: Mapping[str, Tensor], batch: Sequence[MicroBatch]) -> Sums:
        """Sums over a batch of the gradient and the loss."""
        return gradient_sums(self._problem, weights, batch)

    def loss(self, weights: Mapping[str, Tensor], batch: Sequence[MicroBatch]) -> Sums:
        """Sums over samples of the loss."""
        return loss_sums(self._problem, weights, batch)

    def close(self, *, keep_workers: bool = False) -> None:
        """Nothing is held elsewhere."""
