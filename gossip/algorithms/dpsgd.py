"""DPSGD: every learner averages with its neighbours while it computes its gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import flat
from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, State, Step
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class Dpsgd:
    r"""Decentralised parallel SGD, averaging while computing (AWC).

    .. math::
        w_j(t+1) = \sum_k W_{jk}(t)\, w_k(t) + u_j, \qquad
        u_j = \mathrm{OPT}_j(w_j(t), g_j) - w_j(t), \qquad
        g_j = \nabla L^{\mu_j(t)}(w_j(t))

    with u_j = -alpha g_j for plain SGD. The gradient is taken at the learner's *own* weights and
    the mixing reads the weights *before* the update, so messages travel while it is computed.
    Optimizer state and weight decay belong to w_j and are never mixed.

    A learner alone (W = [1]) is bit for bit its optimizer (`FlatOptimizer.increment`).

    Reference: Zhang et al., "Loss landscape dependent self-adjusting learning rates in
    decentralized stochastic gradient descent", arXiv 2112.01433, Eq. 2 (alpha, w_s,j there too).
    """

    shared: ClassVar[bool] = False
    properties: ClassVar[Properties] = Properties()
    pattern: ClassVar[phases.Pattern] = (phases.Overlapped(phases.Mix(), phases.LocalGradient()),)
    flat_spread: ClassVar[flat.FlatSpread] = flat.awc

    optimizer: Callable[[], FlatOptimizer]
    """Makes the optimizer; its state stays local."""

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """All learners start from x [d]."""
        return State(0, x.repeat(local, 1), self.optimizer())

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Start the messages, compute the gradient, wait, add the increment."""
        x = state.x
        mixing = comm.start_mix(x, w)
        gradients = gradient(x)
        lr = rate(x, gradients)
        increment = state.optimizer.increment(x, gradients.values, lr)
        mixed = mixing()
        x_next = increment(mixed, comm.new_rows(x))
        return (
            State(state.step + 1, x_next, state.optimizer),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )


@dataclass(frozen=True)
class DpsgdAtc:
    r"""Adapt, then combine (ATC): the neighbours' *updated* weights are averaged.

    .. math:: w_j(t+1) = \sum_k W_{jk}(t)\, (w_k(t) + u_k)

    Not the DPSGD paper's algorithm: with W = 11^T/n and SGD it is SSGD exactly, and the
    messages can only leave after the gradient. Offered because most decentralised code does it.
    """

    shared: ClassVar[bool] = False
    properties: ClassVar[Properties] = Properties()
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix())
    flat_spread: ClassVar[flat.FlatSpread] = flat.atc

    optimizer: Callable[[], FlatOptimizer]
    """Makes the optimizer; its state stays local."""

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """All learners start from x [d]."""
        return State(0, x.repeat(local, 1), self.optimizer())

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step at the own weights, then average with the neighbours."""
        gradients = gradient(state.x)
        lr = rate(state.x, gradients)
        x_next = comm.start_mix(state.optimizer.step(state.x, gradients.values, lr), w)()
        return (
            State(state.step + 1, x_next, state.optimizer),
            Step(state.x, gradients.values, gradients.losses, x_next, lr),
        )
