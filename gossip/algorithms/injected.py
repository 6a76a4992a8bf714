"""SSGD with DPSGD's own noise injected, or what it is replaced by: interventions on DPSGD."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import NO_ROWS, Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.deviations import (
    NOISES,
    Deviations,
    at_strength,
    recorded_spread,
    with_square,
)
from gossip.algorithms.properties import Properties
from gossip.algorithms.ssgd import Ssgd
from gossip.comm.base import Communicator
from gossip.errors import UserError, one_of
from gossip.optim.flat import FlatOptimizer
from gossip.streams import TWIN, generator

TWIN_NOISE = "twin"


@dataclass(frozen=True)
class Injected(Method):
    r"""SSGD whose gradients are taken at deviations made from its learners' last gradients.

    .. math::
        g_j = \nabla L^{\mu_j}(w_a(t) + s\, \delta_j), \qquad
        w_a(t+1) = \mathrm{OPT}(w_a(t), g_a), \qquad
        \delta_j = F[D]_j, \qquad D_j(t+1) = -\alpha (g_j - g_a)

    With F the identity and plain SGD this is DPSGD with W = 11^T/n: w_j = w_a + D_j. Each other
    `noise` keeps the strength sum_j ||D_j||^2 of every step and changes one property: its sign
    (`flipped`; `signed`, drawn anew at every step), its law (`gaussian` of the same covariance,
    isotropic `by-layer`, `isotropic`), its moment (`delayed` by `back` steps, `shuffled` among
    them), or the run it belongs to (`twin`). `gossip.algorithms.deviations` has the formulas.

    D is this run's own, so that noise that leads elsewhere has another strength than DPSGD has.
    With `strength_from` it has exactly that of a recorded run, whose sigma_w^2(t) it is
    (`gossip.algorithms.deviations.recorded_spread`): sum_j ||delta_j||^2 = n^2 sigma_w^2(t).

    ``twin`` is a second run of DPSGD with W = 11^T/n, on the same mini-batches, that begins at
    w(0) + apart N(0, I); its deviations are taken, at the strength of D. With apart = 0 it is the
    run itself. It costs a second gradient, which BatchNorm's running statistics see too.

    - sent: as SSGD; `gaussian` all rows to all, the isotropic ones an average of one row more,
      `delayed` and `shuffled` two numbers; with `strength_from` one number more
    - state: D, of the last `back` steps where earlier ones are used; of the twin, its weights
    - strength 0 is SSGD bit for bit
    - noise is that of plain SGD whatever the optimizer, which sees w_a and g_a

    Reference: our own interventions, on arXiv 2112.01433, Section 2.2.
    """

    shared: ClassVar[bool] = True
    properties: ClassVar[Properties] = Properties(
        leaves_out=False, rounds=False, survives=False, own_points=False
    )

    noise: str = "own"
    """One of `NOISES`, or twin."""
    strength: float = 1.0
    """s, from 0 up: how many times as large the deviations are."""
    back: int = 20
    """Steps that `delayed` and `shuffled` reach back."""
    apart: float = 0.01
    """Standard deviation by which the twin begins apart."""
    strength_from: str = ""
    """Folder of a run whose sigma_w^2 the noise has at every step; none: that of D."""
    seed: int = 0
    """Of what is drawn."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of((*NOISES, TWIN_NOISE), self.noise, "option noise")
        for name in ("strength", "apart"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(f"{name}={getattr(self, name)}: it is a number from 0 up")
        if self.back < 1:
            raise UserError(f"back={self.back}: the noise of at least 1 step is kept")
        self._spread  # noqa: B018 - a run that cannot be followed is refused before the first step

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """SSGD's, after what the noise costs."""
        if self.strength == 0:
            return Ssgd.pattern
        scaled = (phases.Mean(0, numbers=1),) if self.strength_from else ()
        if self.noise == TWIN_NOISE:
            own = (phases.Mean(), phases.Mean(0, numbers=2))
            return (*own, *scaled, *Ssgd.pattern, phases.LocalGradient())
        return (*NOISES[self.noise].pattern, *scaled, *Ssgd.pattern)

    @cached_property
    def _spread(self) -> Callable[[int], float] | None:
        """sigma_w^2 of the recorded run by step."""
        return recorded_spread(self.strength_from) if self.strength_from else None

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """One shared row, x [d], and no deviations yet."""
        return State(0, x.clone().unsqueeze(0), self.optimizer(), self.start(x.repeat(local, 1)))

    def start(self, x: Tensor) -> Rows:
        """All learners are at weights x [local, d]."""
        if self.strength == 0:
            return NO_ROWS
        remembers = self.noise in NOISES and NOISES[self.noise].remembers
        steps = self.back if remembers else 1
        rows = {"deviations": x.new_zeros(len(x), steps, x.shape[1])}
        if self.noise == TWIN_NOISE:
            apart = torch.from_numpy(generator(self.seed, TWIN).standard_normal(x.shape[1])).to(x)
            rows["twin"] = x + self.apart * apart
        return rows

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Deviate, take the gradients there, average them, step the mean model; `w` is not used."""
        if self.strength == 0:
            return Ssgd(self.optimizer).step(state, gradient, w, rate, comm)
        past, layers = state.rows["deviations"], state.optimizer.layers
        deviations = Deviations(past, state.step, self.seed, layers, comm)
        twin = state.rows.get("twin")
        centre = state.x if twin is None else comm.mean(twin)
        noise = (
            NOISES[self.noise].make(deviations)
            if twin is None
            else at_strength(twin - centre, deviations.own, comm)
        )
        if self._spread is not None:
            noise = with_square(noise, comm.n**2 * self._spread(state.step), comm)
        points = state.x + self.strength * noise
        gradients = gradient(points)
        mean = comm.mean(gradients.values)
        lr = rate(state.x, gradients, mean)
        x_next = state.optimizer.step(state.x, mean.unsqueeze(0), lr)
        now = -state.optimizer.rated(gradients.values - mean, lr)
        rows = {"deviations": torch.cat((now.unsqueeze(1), past[:, :-1]), dim=1)}
        if twin is not None:
            rows["twin"] = centre - state.optimizer.rated(gradient(twin).values, lr)
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(points, gradients.values, gradients.losses, state.x, lr),
        )
