"""SSGD: the synchronous baseline, one model for all learners."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, State, Step
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class Ssgd:
    r"""Synchronous SGD by averaging gradients.

    .. math:: w_a(t+1) = \mathrm{OPT}(w_a(t), g_a), \quad g_a = \frac1n \sum_j \nabla L^{\mu_j}(w_a)

    Each process keeps one row, not one per learner, and takes the gradient of its learners'
    batches together. For plain SGD and momentum, averaging models instead is the same; for
    Adam it is not, and gradient averaging is the definition here.

    Reference: arXiv 2112.01433, Eq. 1.
    """

    shared: ClassVar[bool] = True
    properties: ClassVar[Properties] = Properties()
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mean())

    optimizer: Callable[[], FlatOptimizer]
    """Makes the optimizer; all processes hold the same state."""

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """One shared row, x [d]."""
        return State(0, x.clone().unsqueeze(0), self.optimizer())

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Average the gradients of all learners, then one optimizer step; `w` plays no part."""
        gradients = gradient(state.x)
        mean = comm.mean(gradients.values)
        lr = rate(state.x, gradients, mean)
        x_next = state.optimizer.step(state.x, mean.unsqueeze(0), lr)
        return (
            State(state.step + 1, x_next, state.optimizer),
            Step(state.x, gradients.values, gradients.losses, state.x, lr),
        )
