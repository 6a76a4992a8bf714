"""DeepSqueeze: weights are sent, each time with what was left out before."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms.base import Gradient, LearningRate, Rows, State, Step
from gossip.algorithms.compressed import CompressedMethod
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class DeepSqueeze(CompressedMethod):
    r"""DeepSqueeze: the error of a message is added to the next.

    .. math::
        v = w + u + e, \quad q = C(v), \quad e \leftarrow v - q, \quad
        w_j \leftarrow w_j + u_j + \gamma \sum_k W_{jk} (q_k - q_j)

    Nothing is known of the neighbours, so W may change at every step. But weights are compressed
    and not how they change: learners stay as far apart as what C leaves out of the weights, so C
    should be precise. With C the identity and gamma = 1 it is ATC.

    - sent: C of one row along each edge, after the gradient
    - state: e
    - defaults: int4 by blocks of 32, gamma 0.1 (ours)

    Reference: Tang et al., "DeepSqueeze: decentralization meets error-compensated compression",
    2019, arXiv 1907.07346.
    """

    properties: ClassVar[Properties] = Properties(columns="always", leaves_out=False, rounds=False)

    compressor: str = "int4"
    """The operator and its numbers."""

    def start(self, x: Tensor) -> Rows:
        """No error yet."""
        return {"error": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, send it with what was left out before, go towards what the others send."""
        x = state.x
        gradients = gradient(x)
        lr = rate(x, gradients)
        stepped = state.optimizer.step(x, gradients.values, lr)
        v = stepped + state.rows["error"]
        q, mixing = self.send(v, w, state.step, comm)
        x_next = stepped + self.gamma * (mixing() - q)
        return (
            State(state.step + 1, x_next, state.optimizer, {"error": v - q}),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )
