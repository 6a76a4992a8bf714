"""AD-PSGD: every learner averages with one random neighbour at a time, and waits for nobody."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import State
from gossip.algorithms.properties import Properties
from gossip.optim.flat import FlatOptimizer

STEPPED = "stepped"
"""Name, in the state of all optimizers together, of which of them have stepped, [local] bool."""


class Optimizers:
    """One optimizer per learner, since learners step at different times.

    Args:
        each: of the hosted learners, in their order.
    """

    def __init__(self, each: Sequence[FlatOptimizer]) -> None:
        self.each = tuple(each)

    def state_rows(self) -> dict[str, Tensor]:
        """The states as rows, name -> [local, ...]; zeros where a learner has not stepped yet."""
        states = [optimizer.state_rows() for optimizer in self.each]
        like = {name: row for state in states for name, row in state.items()}
        rows = {
            name: torch.cat([state.get(name, torch.zeros_like(row)) for state in states])
            for name, row in like.items()
        }
        return rows | {STEPPED: torch.tensor([bool(state) for state in states])} if rows else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_rows()`; before the first step."""
        for k, optimizer in enumerate(self.each):
            if STEPPED in state and state[STEPPED][k]:
                own = {name: rows[k : k + 1] for name, rows in state.items() if name != STEPPED}
                optimizer.restore(own)


@dataclass(frozen=True)
class AdPsgd:
    r"""Asynchronous decentralised parallel SGD.

    There is no common step. Learner i, at its own pace and again and again,

    .. math::
        \hat w_i \leftarrow w_i, \qquad
        w_i, w_j \leftarrow \tfrac12 (w_i + w_j), \qquad
        w_i \leftarrow w_i + u_i, \qquad
        u_i = \mathrm{OPT}_i(\hat w_i, g_i) - \hat w_i, \qquad
        g_i = \nabla L^{\mu_i}(\hat w_i)

    with j a random neighbour and u_i = -alpha g_i for plain SGD. The gradient is computed while
    the averaging goes on, so it is stale: tau_i counts the averagings and updates of w_i between
    the snapshot \hat w_i and the moment its gradient is added. Averaging moves no mean of the
    learners' weights, so w_a moves by u_i / n at each update. Optimizer state and weight decay
    belong to the snapshot's learner and are never mixed.

    Computed as (\hat w_i + u_i) + (w_i - \hat w_i), so that a learner alone is bit for bit its
    optimizer.

    Reference: Lian et al., "Asynchronous decentralized parallel stochastic gradient descent",
    ICML 2018, arXiv 1710.06952, Algorithm 1.
    """

    shared: ClassVar[bool] = False
    properties: ClassVar[Properties] = Properties()
    pattern: ClassVar[phases.Pattern] = (phases.Pairwise(),)

    optimizer: Callable[[], FlatOptimizer]
    """Makes the optimizer of one learner; its state stays local."""

    def init(self, x: Tensor, local: int) -> State[Optimizers]:
        """All learners start from x [d]."""
        return State(0, x.repeat(local, 1), Optimizers([self.optimizer() for _ in range(local)]))

    @staticmethod
    def averaged(row: Tensor, other: Tensor) -> Tensor:
        """What two learners have after they have averaged, [d]."""
        return (row + other) / 2

    @staticmethod
    def moved(row: Tensor, snapshot: Tensor, stepped: Tensor) -> Tensor:
        """The learner's present weights `row` with the increment of a gradient taken earlier.

        Args:
            row: w_i, [1, d].
            snapshot: where the gradient was taken, [1, d].
            stepped: the snapshot after the optimizer's step, [1, d].
        """
        return stepped + (row - snapshot)
