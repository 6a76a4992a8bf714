r"""Push-sum: averaging on directed graphs, where nobody knows who listens to the others.

P is column-stochastic: sender k splits its mass over itself and its receivers. It is W where the
columns of W sum to 1, else W with its columns scaled so. The weights are u/omega with u <- P u and
omega <- P omega, omega(0) = 1; sum(omega) = n at every step.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.derived import mass_keeping
from gossip.algorithms.one_message import start_mix_together
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class Sgp(Method):
    r"""Stochastic gradient push.

    .. math::
        u_j(t+1) = \sum_k P_{jk} (u_k(t) + \mathrm{OPT}_k(z_k, g_k) - z_k), \qquad
        \omega(t+1) = P \omega(t), \qquad z_j = u_j / \omega_j

    with the gradient at z, which are the learner's weights for everyone else. Where P is doubly
    stochastic omega stays 1 and it is ATC; different data bias it as they bias ATC.

    - sent: a row and a number along each edge, after the gradient
    - state: omega
    - invariant: sum(omega) = n
    - after learners are lost, the mass that was theirs is gone: omega begins again at 1

    Reference: Assran, Loizou, Ballas, Rabbat, "Stochastic gradient push for distributed deep
    learning", ICML 2019, arXiv 1811.10792.
    """

    properties: ClassVar[Properties] = Properties(columns="any", rounds=False)
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix(numbers=1))

    def start(self, x: Tensor) -> Rows:
        """Begin with omega = 1."""
        return {"mass": x.new_ones(len(x), 1)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step at the weights, push numerators and masses."""
        z, mass = state.x, state.rows["mass"]
        gradients = gradient(z)
        lr = rate(z, gradients)
        pushed = state.optimizer.step(z, gradients.values, lr) + z * (mass - 1)
        u, mass_next = start_mix_together(comm, (pushed, mass), mass_keeping(w))()
        z_next = u / mass_next
        return (
            State(state.step + 1, z_next, state.optimizer, {"mass": mass_next}),
            Step(z, gradients.values, gradients.losses, z_next, lr),
        )


@dataclass(frozen=True)
class PushDiging(Method):
    r"""Push-DIGing: gradient tracking on directed graphs.

    .. math::
        u(t+1) = P (u(t) - \alpha y(t)), \quad \omega(t+1) = P \omega(t), \quad z = u / \omega,
        \quad y(t+1) = P y(t) + g(t+1) - g(t), \quad y(0) = g(0)

    The optimizer takes y in the place of g. Exact for different data with a constant alpha, also
    where P is not doubly stochastic.

    - sent: two rows and a number along each edge, in one message, after the gradient
    - state: omega, P y, g
    - invariants: sum(omega) = n, sum(y) = sum(g)

    Reference: Nedic, Olshevsky, Shi, "Achieving geometric convergence for distributed optimization
    over time-varying graphs", 2017, arXiv 1607.03218.
    """

    properties: ClassVar[Properties] = Properties(
        columns="any", leaves_out=False, rounds=False, steers=True
    )
    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix(2, numbers=1))

    def start(self, x: Tensor) -> Rows:
        """Begin with omega = 1, and no gradient yet: y becomes the first one."""
        zeros = torch.zeros_like(x)
        return {"mass": x.new_ones(len(x), 1), "tracker": zeros, "gradient": zeros}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Track, step along the tracker, push all three."""
        z, rows = state.x, state.rows
        gradients = gradient(z)
        lr = rate(z, gradients)
        y = rows["tracker"] + gradients.values - rows["gradient"]
        pushed = state.optimizer.step(z, y, lr) + z * (rows["mass"] - 1)
        parts = (pushed, rows["mass"], y)
        u, mass, tracker = start_mix_together(comm, parts, mass_keeping(w))()
        z_next = u / mass
        kept = {"mass": mass, "tracker": tracker, "gradient": gradients.values}
        return (
            State(state.step + 1, z_next, state.optimizer, kept),
            Step(z, gradients.values, gradients.losses, z_next, lr),
        )
