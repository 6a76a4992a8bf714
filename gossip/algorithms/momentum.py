"""Momentum that gossip does not turn into bias: quasi-global, DecentLaM, momentum tracking."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.bounds import SMALLEST_RATE, share_below_one
from gossip.algorithms.one_message import start_mix_together
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.errors import UserError, one_of
from gossip.optim.flat import FlatOptimizer

DIRECTIONS = ("nesterov", "heavy-ball")


@dataclass(frozen=True)
class _Momentum(Method):
    """A method with a momentum m of each learner."""

    beta: float = 0.9
    """beta, in [0, 1)."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        share_below_one("beta", self.beta)

    def start(self, x: Tensor) -> Rows:
        """Begin with m = 0."""
        return {"momentum": torch.zeros_like(x)}


@dataclass(frozen=True)
class QuasiGlobal(_Momentum):
    r"""QG-DSGDm: a momentum of what the learner's weights did, averaging included.

    .. math::
        d = g + \beta (\beta \hat m + g) \quad\text{or heavy ball}\quad d = \beta \hat m + g, \qquad
        w(t+1) = W (w(t) - \alpha d), \qquad
        \hat m \leftarrow \mu \hat m + (1 - \mu) \frac{w(t) - w(t+1)}{\alpha}

    A step with alpha <= 1e-8 is an averaging, in which \hat m stays as it is.

    At a fixed point \hat m = 0, so the bias is that of ATC with this alpha (heavy ball) or with
    (1 + beta) alpha (Nesterov), where local momentum has alpha/(1 - beta). On the mean heavy ball
    acts as a momentum with decay mu + (1 - mu) beta and the steady factor 1/(1 - beta).

    - sent: one row along each edge, after the gradient
    - state: \hat m
    - defaults: beta = mu = 0.9 and Nesterov's direction, the authors'
    - weight decay is part of w(t) - w(t+1), and so of \hat m

    Reference: Lin, Karimireddy, Stich, Jaggi, "Quasi-global momentum: accelerating decentralized
    deep learning on heterogeneous data", ICML 2021, arXiv 2102.04761.
    """

    properties: ClassVar[Properties] = Properties(
        own_momentum=True, one_rate=True, leaves_out=False
    )
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix())

    mu: float = 0.9
    """mu, in [0, 1]."""
    direction: str = "nesterov"
    """One of `DIRECTIONS`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        one_of(DIRECTIONS, self.direction, "option direction")
        if not 0 <= self.mu <= 1:
            raise UserError(f"mu={self.mu}: it is a share, in [0, 1]")

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step along gradient and momentum, average, take the difference into the momentum."""
        x, m = state.x, state.rows["momentum"]
        gradients = gradient(x)
        lr = rate(x, gradients)
        g = gradients.values
        heavy = self.beta * m + g
        d = heavy if self.direction == "heavy-ball" else g + self.beta * heavy
        x_next = comm.start_mix(state.optimizer.step(x, d, lr), w)()
        alpha = float(lr)
        if alpha > SMALLEST_RATE:
            m = self.mu * m + (1 - self.mu) * (x - x_next) / alpha
        return (
            State(state.step + 1, x_next, state.optimizer, {"momentum": m}),
            Step(x, g, gradients.losses, x_next, lr),
        )


@dataclass(frozen=True)
class MixedMomentum(_Momentum):
    r"""Local momentum that is averaged with the neighbours' as the weights are.

    .. math::
        v = \beta m + g, \qquad w(t+1) = W (w(t) - \alpha v), \qquad m \leftarrow W v

    `--order atc --momentum beta` is the same with m = v, each learner's own. With W = 11^T/n it is
    SSGD with momentum.

    - sent: two rows along each edge, in one message, after the gradient
    - state: m
    - invariant: mean(w) is moved by a heavy ball of the mean gradient
    - defaults: beta 0.9

    Reference: Yu, Jin, Yang, "On the linear speedup analysis of communication efficient momentum
    SGD for distributed non-convex optimization", ICML 2019, arXiv 1905.03817.
    """

    properties: ClassVar[Properties] = Properties(own_momentum=True, leaves_out=False)
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix(2))

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step along the momentum, average both."""
        x = state.x
        gradients = gradient(x)
        lr = rate(x, gradients)
        v = self.beta * state.rows["momentum"] + gradients.values
        stepped = state.optimizer.step(x, v, lr)
        x_next, m = start_mix_together(comm, (stepped, v), w)()
        return (
            State(state.step + 1, x_next, state.optimizer, {"momentum": m}),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )


@dataclass(frozen=True)
class DecentLam(_Momentum):
    r"""DecentLaM: momentum of the whole step, averaging taken as a part of the gradient.

    .. math::
        y = w(t) - \alpha g, \qquad \tilde g = (w(t) - W y) / \alpha, \qquad
        m \leftarrow \beta m + \tilde g, \qquad w(t+1) = w(t) - \alpha m

    \tilde g is the gradient of the loss that ATC minimises, so the fixed point is that of ATC with
    this alpha, for any beta; local momentum has that of alpha/(1 - beta). Computed as
    w(t+1) = W y - alpha beta m, so that alpha = 0 is an averaging; where alpha <= 1e-8, m stays as
    it is.

    - sent: one row along each edge, after the gradient
    - state: m
    - needs: the same symmetric W at every step. Differences of learners follow w(t+1) = W w(t) +
      beta (w(t) - w(t-1)), a heavy ball that diverges on matchings and one-peer graphs
    - defaults: beta 0.9 (the authors')

    Reference: Yuan et al., "DecentLaM: decentralized momentum SGD for large-batch deep training",
    ICCV 2021, arXiv 2104.11981.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always",
        symmetric=True,
        static=True,
        own_momentum=True,
        one_rate=True,
        leaves_out=False,
    )
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix())

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, average, and carry on the whole of it."""
        x, m = state.x, state.rows["momentum"]
        gradients = gradient(x)
        lr = rate(x, gradients)
        alpha = float(lr)
        mixed = comm.start_mix(state.optimizer.step(x, gradients.values, lr), w)()
        x_next = mixed - alpha * self.beta * m
        if alpha > SMALLEST_RATE:
            m = self.beta * m + (x - mixed) / alpha
        return (
            State(state.step + 1, x_next, state.optimizer, {"momentum": m}),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )


@dataclass(frozen=True)
class MomentumTracking(_Momentum):
    r"""Momentum tracking: local momentum, and a tracker of how it differs from the mean one.

    .. math::
        m \leftarrow \beta m + g, \qquad w(t+1) = W w(t) - \alpha (m - c), \qquad
        c \leftarrow W (c - m) + m

    Begins with m = c = 0. (The authors begin both at (g - mean g)/(1 - beta), for one average more;
    mean(c) = 0 and the fixed point, the minimum of the mean loss, are the same.)

    - sent: two rows along each edge, the first while the gradient is computed
    - state: m, c
    - invariant: mean(c) = 0
    - defaults: beta 0.9 (the authors')

    Reference: Takezawa et al., "Momentum tracking: momentum acceleration for decentralized deep
    learning on heterogeneous data", 2023, arXiv 2209.15505.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always", own_momentum=True, leaves_out=False, rounds=False
    )
    pattern: ClassVar[phases.Pattern] = (
        phases.Overlapped(phases.Mix(), phases.LocalGradient()),
        phases.Mix(),
    )

    def start(self, x: Tensor) -> Rows:
        """Begin with m = c = 0."""
        return {"momentum": torch.zeros_like(x), "correction": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Average the weights meanwhile, follow the corrected momentum, average the rest of it."""
        x, c = state.x, state.rows["correction"]
        mixing = comm.start_mix(x, w)
        gradients = gradient(x)
        lr = rate(x, gradients)
        m = self.beta * state.rows["momentum"] + gradients.values
        increment = state.optimizer.increment(x, m - c, lr)
        mixed = mixing()
        x_next = increment(mixed, torch.empty_like(x))
        rows = {"momentum": m, "correction": comm.start_mix(c - m, w)() + m}
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )
