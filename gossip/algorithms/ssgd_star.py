"""SSGD*: SSGD with Gaussian noise in the place of DPSGD's deviations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, State, Step
from gossip.algorithms.properties import Properties
from gossip.algorithms.ssgd import Ssgd
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer
from gossip.streams import NOISE, generator

NOISE_MODES = ("eval", "centered", "persist")
"""What `--noise-mode` offers; see `SsgdStar`."""


@dataclass(frozen=True)
class SsgdStar:
    r"""SSGD whose gradients are taken at perturbed weights.

    .. math::
        \delta_j \sim N(0, \sigma_0^2 I), \qquad g_j = \nabla L^{\mu_j}(w_a(t) + \delta_j), \qquad
        w_a(t+1) = \mathrm{OPT}\Big(w_a(t), \frac1n \sum_j g_j\Big)

    The noise is drawn anew for every step, learner and coordinate. The paper does not say
    whether it stays in the weights, so there are three readings
    (docs/mathematics.md#ssgd-with-noise):

    - ``eval``: it does not; an SGD step on the smoothed loss of the paper's Theorem 1.
    - ``centered``: the learners' mean is subtracted, so that sum_j delta_j = 0 as in DPSGD.
    - ``persist``: w_a moves by the mean of delta too, like Langevin dynamics.

    OPT sees w_a, about which the gradients were taken, in all of them: weight decay and norms of
    layers are those of w_a, and ``persist`` differs from ``eval`` by mean(delta), nothing else.

    sigma_0 = 0 is SSGD bit for bit. ``centered`` and ``persist`` average the noise as well: one
    more all-reduce a step, and counted as one. That of ``persist`` could travel with the
    gradient's for plain SGD, but only there.

    Reference: arXiv 2112.01433, Sections 2.2 and 4.3.
    """

    shared: ClassVar[bool] = True
    properties: ClassVar[Properties] = Properties()

    optimizer: Callable[[], FlatOptimizer]
    """Makes the optimizer; all processes hold the same state."""
    std: float
    """sigma_0, in the units of the weights."""
    mode: str
    """One of `NOISE_MODES`."""
    seed: int
    """Noise is addressed by (seed, learner, step)."""

    @property
    def pattern(self) -> phases.Pattern:
        """One more average where the noise is averaged too."""
        more = {
            "centered": (phases.Mean(), *Ssgd.pattern),
            "persist": (*Ssgd.pattern, phases.Mean()),
        }
        return more.get(self.mode, Ssgd.pattern) if self.std > 0 else Ssgd.pattern

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
        """Perturb, take the gradients there, average them, step the unperturbed weights."""
        if self.std == 0:
            return Ssgd(self.optimizer).step(state, gradient, w, rate, comm)
        noise = self._noise(state.step, state.x, comm)
        points = state.x + noise
        gradients = gradient(points)
        mean = comm.mean(gradients.values)
        lr = rate(state.x, gradients, mean)
        x_next = state.optimizer.step(state.x, mean.unsqueeze(0), lr)
        if self.mode == "persist":
            x_next += comm.mean(noise)
        return (
            State(state.step + 1, x_next, state.optimizer),
            Step(points, gradients.values, gradients.losses, state.x, lr, self.mode != "centered"),
        )

    def _noise(self, t: int, x: Tensor, comm: Communicator) -> Tensor:
        """delta_j of the hosted learners, [local, d]."""
        rows = [
            generator(self.seed, NOISE, learner, t).standard_normal(x.shape[1])
            for learner in comm.hosted
        ]
        noise = self.std * torch.from_numpy(np.stack(rows)).to(x)
        return noise - comm.mean(noise) if self.mode == "centered" else noise
