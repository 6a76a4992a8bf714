"""RelaySGD: on a tree, sums are passed on instead of averaged, so each gradient counts 1/n."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.derived import swaps
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class Relay(Method):
    r"""RelaySGD: sums that are relayed along a tree, each learner's counted once.

    With h_j = w_j + u_j, learner j sends to its neighbour k what it has and what it has heard from
    the others, and how many learners that is:

    .. math::
        M_{j \to k}(t) = h_j + \sum_{i \in N(j) \setminus k} M_{i \to j}(t-1), \qquad
        c_{j \to k}(t) = 1 + \sum_{i \in N(j) \setminus k} c_{i \to j}(t-1)

    .. math::
        w_j(t+1) = \frac1n \Big(h_j + \sum_{i \in N(j)} M_{i \to j}(t)
            + \big(n - 1 - \sum_i c_{i \to j}(t)\big) w_j(0)\Big)

    So each learner has the sum of all others' weights, as old as they are far away. Unlike gossip
    it is exact for different data with a constant alpha; with zero increments all have the mean
    after as many steps as the tree's diameter. Long chains delay, which bounds alpha.

    - sent: a row and a number along each edge, another to each neighbour, after the gradient
    - state: w(0), and of each neighbour what it sent last, in the order of the edges' colours
    - W plays no part but for its graph, which must be a tree
    - after learners are lost it begins again, at the weights of then

    Reference: Vogels et al., "RelaySum for decentralized deep learning on heterogeneous data",
    NeurIPS 2021, arXiv 2110.04175.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always", symmetric=True, static=True, tree=True, rounds=False
    )
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix(numbers=1))
    later: ClassVar[tuple[str, ...]] = ("heard",)
    """What it keeps from its first step on, in a shape that follows from the tree."""

    def start(self, x: Tensor) -> Rows:
        """w(0); nothing is heard yet."""
        return {"start": x}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, send to each neighbour its own message, add up what has come."""
        x, n = state.x, comm.n
        edges = swaps(w)
        gradients = gradient(x)
        lr = rate(x, gradients)
        h = state.optimizer.step(x, gradients.values, lr)
        # A row with its count, [local, d + 1]; heard of each neighbour, [local, colours, d + 1].
        own = torch.cat((h, torch.ones_like(h[:, :1])), dim=1)
        heard = state.rows.get("heard", own.new_zeros(len(own), len(edges), own.shape[1]))
        total = own + heard.sum(dim=1)
        pending = [comm.start_mix(total - heard[:, c], swap) for c, swap in enumerate(edges)]
        arrived = [
            wait() * _paired(swap, comm, own) for wait, swap in zip(pending, edges, strict=True)
        ]
        heard = torch.stack(arrived, dim=1) if arrived else heard
        relayed = own + heard.sum(dim=1)
        missing = n - relayed[:, -1:]
        x_next = (relayed[:, :-1] + missing * state.rows["start"]) / n
        rows = {"start": state.rows["start"], "heard": heard}
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )


def _paired(swap: csr_array, comm: Communicator, like: Tensor) -> Tensor:
    """1 for the hosted learners who swap with somebody, 0 for those who keep their own."""
    alone = swap.diagonal()[comm.hosted.start : comm.hosted.stop]
    return torch.as_tensor(1 - alone, dtype=like.dtype, device=like.device).unsqueeze(1)
