"""DCD-PSGD and ECD-PSGD: what is sent is how the weights move, or where that leads."""

from dataclasses import dataclass, field
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
class Dcd(CompressedMethod):
    r"""DCD-PSGD: learners hold each other's weights exactly, since they move by what is sent.

    .. math:: w(t+1) = w(t) + C(W w(t) + u - w(t))

    with s = W w kept up to date by s <- s + W C(...). With C the identity it is DPSGD. The operator
    should be precise: with an aggressive one it may diverge.

    - sent: C of one row along each edge, after the gradient
    - state: s
    - needs: the same W at every step, for s; all learners to begin alike, so a run that loses some
      goes on from a checkpoint
    - defaults: int8 by blocks of 256 (ours)

    Reference: Tang, Gan, Zhang, Zhang, Liu, "Communication compression for decentralized training",
    NeurIPS 2018, arXiv 1803.06443.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always", static=True, leaves_out=False, rounds=False, survives=False
    )
    contracts: ClassVar[bool] = False

    compressor: str = "int8"
    """The operator and its numbers."""
    gamma: float = field(default=1.0, init=False)

    def start(self, x: Tensor) -> Rows:
        """W w = w where all are alike."""
        return {"neighbours": x}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Move by what others can be told of the step."""
        x, mixed = state.x, state.rows["neighbours"]
        gradients = gradient(x)
        lr = rate(x, gradients)
        stepped = state.optimizer.step(x, gradients.values, lr)
        q, mixing = self.send(mixed - x + (stepped - x), w, state.step, comm)
        kept = {"neighbours": mixed + mixing()}
        return (
            State(state.step + 1, x + q, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )


@dataclass(frozen=True)
class Ecd(Dcd):
    r"""ECD-PSGD: learners are sent extrapolations, and estimate each other's weights from them.

    .. math::
        w(t+1) = W \hat w(t) + u, \qquad
        z = (1 - \tfrac t2) w(t) + \tfrac t2 w(t+1), \qquad
        \hat w(t+1) = (1 - \tfrac2t) \hat w(t) + \tfrac2t C(z)

    with t from 1 and s = W \hat w for all neighbours, one's own estimate among them. The factor 2/t
    makes the variance of an unbiased C fade from the estimates as 1/t, but z grows with t, and so
    does what C does to it. With C the identity it is DPSGD. Only the expectation of the mean moves
    by the mean increment.

    - sent: C of one row along each edge, after the gradient
    - state: s
    - needs: as `Dcd`
    - defaults: QSGD with 255 levels (ours); C should be unbiased
    - float32 loses digits in z after some 1e4 steps

    Reference: Tang, Gan, Zhang, Zhang, Liu, "Communication compression for decentralized training",
    NeurIPS 2018, arXiv 1803.06443.
    """

    compressor: str = "qsgd:255"
    """The operator and its numbers."""

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Go from the estimates by the increment, tell where that leads."""
        x, mixed, t = state.x, state.rows["neighbours"], state.step + 1
        gradients = gradient(x)
        lr = rate(x, gradients)
        x_next = state.optimizer.increment(x, gradients.values, lr)(mixed, torch.empty_like(x))
        _, mixing = self.send((1 - t / 2) * x + t / 2 * x_next, w, state.step, comm)
        kept = {"neighbours": (1 - 2 / t) * mixed + 2 / t * mixing()}
        return (
            State(t, x_next, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )
