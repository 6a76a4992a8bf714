r"""Gradient tracking in its published orders: a tracker y of the mean gradient for each learner.

All keep mean(y) = mean(g) at every step and for every doubly stochastic W(t), and their fixed
point is the minimum of the mean loss, with a constant alpha and whatever the learners' data. Each
takes one new gradient per step. Their trajectories differ, so each order has a name.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.one_message import start_mix_together
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class TrackingAwc(Method):
    r"""Gradient tracking, averaging while computing (DIGing).

    .. math::
        y(t) = W y(t-1) + g(t) - g(t-1), \qquad w(t+1) = W w(t) - \alpha y(t), \qquad y(0) = g(0)

    The optimizer takes y in the place of g. W w(t) and W y(t-1) are asked for together, before the
    gradient, so both travel while it is computed; W is that of step t in both.

    - sent: two rows along each edge, in one message
    - state: y, g
    - invariant: mean(y) = mean(g)
    - defaults: none but alpha, which may have to be smaller than DPSGD's on sparse graphs

    References: Nedic, Olshevsky, Shi, "Achieving geometric convergence for distributed optimization
    over time-varying graphs", 2017, arXiv 1607.03218.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always", leaves_out=False, rounds=False, steers=True
    )
    pattern: ClassVar[phases.Pattern] = (phases.Overlapped(phases.Mix(2), phases.LocalGradient()),)

    def start(self, x: Tensor) -> Rows:
        """No gradient yet: y becomes the first one."""
        return {"tracker": torch.zeros_like(x), "gradient": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Start both messages, compute the gradient, wait, follow the tracker."""
        x = state.x
        mixing = start_mix_together(comm, (x, state.rows["tracker"]), w)
        gradients = gradient(x)
        lr = rate(x, gradients)
        mixed, y = mixing()
        y += gradients.values - state.rows["gradient"]
        x_next = state.optimizer.increment(x, y, lr)(mixed, torch.empty_like(x))
        return (
            State(
                state.step + 1,
                x_next,
                state.optimizer,
                {"tracker": y, "gradient": gradients.values},
            ),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )


@dataclass(frozen=True)
class TrackingAtc(TrackingAwc):
    r"""Gradient tracking, adapt then combine (Aug-DGM, NEXT).

    .. math::
        y(t) = W (y(t-1) + g(t) - g(t-1)), \qquad w(t+1) = W (w(t) - \alpha y(t))

    It begins with y(0) = W g(0), the recursion from y = g = 0.

    - sent: two rows along each edge, one after the other
    - state: y, g
    - invariant: mean(y) = mean(g)

    References: Xu, Zhu, Soh, Xie, "Augmented distributed gradient methods for multi-agent
    optimization under uncoordinated constant stepsizes", 2015; Di Lorenzo, Scutari, "NEXT", 2016.
    """

    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix(), phases.Mix())

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Average the trackers, follow them, average the weights."""
        x, rows = state.x, state.rows
        gradients = gradient(x)
        lr = rate(x, gradients)
        y = comm.start_mix(rows["tracker"] + gradients.values - rows["gradient"], w)()
        x_next = comm.start_mix(state.optimizer.step(x, y, lr), w)()
        return (
            State(
                state.step + 1,
                x_next,
                state.optimizer,
                {"tracker": y, "gradient": gradients.values},
            ),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )


@dataclass(frozen=True)
class TrackingSemi(Method):
    r"""Gradient tracking, weights adapted then combined and trackers combined then adapted.

    .. math::
        w(t+1) = W (w(t) + u + c), \qquad c(t+1) = W (c + u) - u, \qquad c(0) = 0

    For u = -alpha g with constant alpha it is w(t+1) = W (w - alpha y), y(t+1) = W y + g(t+1) -
    g(t) with alpha y = -(u + c). In this form u may be any optimizer's increment, no gradient is
    kept, and alpha may change.

    - sent: two rows along each edge, in one message, after the gradient
    - state: c
    - invariant: mean(c) = 0

    Reference: Vogels et al., "RelaySum for decentralized deep learning on heterogeneous data",
    NeurIPS 2021, arXiv 2110.04175 (this form); tracking in this order: Qu, Li, "Harnessing
    smoothness to accelerate distributed optimization", 2017.
    """

    properties: ClassVar[Properties] = Properties(columns="always", rounds=False)
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix(2))

    def start(self, x: Tensor) -> Rows:
        """Nothing to correct yet."""
        return {"correction": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, then average weights and corrections with the neighbours."""
        x, c = state.x, state.rows["correction"]
        gradients = gradient(x)
        lr = rate(x, gradients)
        stepped = state.optimizer.step(x, gradients.values, lr)
        increment = stepped - x
        x_next, tracked = start_mix_together(comm, (stepped + c, c + increment), w)()
        rows = {"correction": tracked - increment}
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )
