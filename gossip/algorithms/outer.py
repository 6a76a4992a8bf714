r"""Rounds: H inner steps alone, then an outer optimizer on what all have done in them.

With theta the weights at the beginning of a round and x_j learner j's at its end, the
pseudo-gradient is Delta_j = theta - x_j, which points uphill as a gradient does, and its mean
\bar Delta is what the outer optimizer takes. Local SGD, SlowMo, DiLoCo and (for one learner)
Lookahead differ in that optimizer alone.
"""

from dataclasses import dataclass

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, Method, Rate, Rows, State, Step
from gossip.algorithms.bounds import SMALLEST_RATE, share_below_one
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.errors import UserError, one_of
from gossip.optim.flat import FlatOptimizer

FORMS = ("nesterov", "heavy-ball", "slowmo")


@dataclass(frozen=True)
class Outer(Method):
    r"""Local steps, and every H-th step an outer step from the exact mean.

    .. math::
        \bar\Delta = \theta - \frac1n \sum_j x_j, \qquad v \leftarrow \mu v + \bar\Delta, \qquad
        \theta \leftarrow \theta - \eta (\bar\Delta + \mu v) \text{ or } \theta - \eta v, \qquad
        x_j \leftarrow \theta

    with Nesterov's momentum, or heavy ball; ``slowmo`` keeps v in units of the gradient, v <- mu v
    + \bar\Delta / alpha and theta <- theta - eta alpha v, which differs where alpha changes.

    The inner optimizer's state stays local and goes on through the rounds; weight decay and the
    learning rate's schedule are those of inner steps. Rounds end after steps H, 2H, ...; what is
    judged is the mean of x, which is theta there. With one curvature h for all the outer step needs
    eta < 2 (1 + mu) / (q (1 + 2 mu)) with q = 1 - (1 - alpha h)^H. No outer optimizer removes the
    bias of different data in H > 1 local steps.

    - sent: an average of one row over all learners every H steps
    - state: theta and v, the same rows for all
    - W plays no part

    References: Stich, "Local SGD converges fast and communicates little", ICLR 2019 (eta = 1, mu =
    0); Wang, Tantia, Ballas, Rabbat, "SlowMo", ICLR 2020, arXiv 1910.00643; Douillard et al.,
    "DiLoCo: distributed low-communication training of language models", 2023, arXiv 2311.08105;
    Zhang, Lucas, Ba, Hinton, "Lookahead optimizer", NeurIPS 2019 (n = 1, mu = 0).
    """

    every: int = 8
    """H, steps of a round."""
    eta: float = 1.0
    """eta, the outer learning rate."""
    mu: float = 0.0
    """mu, the outer momentum."""
    form: str = "heavy-ball"
    """One of `FORMS`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.every < 1:
            raise UserError(f"every={self.every}: a round has at least 1 step")
        if not 0 < self.eta < 10:
            raise UserError(f"eta={self.eta}: it is an outer learning rate, in (0, 10)")
        share_below_one("mu", self.mu)
        one_of(FORMS, self.form, "option form")

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """SlowMo divides by the rate; learners in a round build on one theta."""
        return Properties(columns="any", one_rate=self.form == "slowmo", survives=False)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes an average."""
        return (phases.Gradient(), phases.Every(self.every, phases.Mean()))

    def start(self, x: Tensor) -> Rows:
        """The first round begins here."""
        return {"anchor": x, "momentum": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: Rate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step alone; at the end of a round take the outer step."""
        gradients = gradient(state.x)
        lr = rate(state.x, gradients)
        x_next = state.optimizer.step(state.x, gradients.values, lr)
        rows = state.rows
        if (state.step + 1) % self.every == 0:
            x_next, rows = self._outer(comm.mean(x_next), rows, lr)
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(state.x, gradients.values, gradients.losses, state.x, lr),
        )

    def _outer(self, mean: Tensor, rows: Rows, lr: "float | Tensor") -> tuple[Tensor, Rows]:
        """The next theta, from the mean of the weights [d], and what is kept."""
        theta, v = rows["anchor"], rows["momentum"]
        delta = theta - mean
        if self.form == "slowmo":
            alpha = max(float(lr), SMALLEST_RATE)
            v = self.mu * v + delta / alpha
            ahead = alpha * v - delta
        else:
            v = self.mu * v + delta
            ahead = self.mu * v if self.form == "nesterov" else v - delta
        theta = theta - self.eta * (delta + ahead)
        if self.eta == 1 and self.mu == 0:
            theta = mean.expand_as(theta).contiguous()  # the mean itself, to the bit
        return theta, {"anchor": theta, "momentum": v}


@dataclass(frozen=True)
class DiLoCo(Outer):
    r"""DiLoCo: `Outer` with Nesterov's momentum, eta = 0.7, mu = 0.9 (the authors').

    .. math::
        v \leftarrow \mu v + \bar\Delta, \qquad
        \theta \leftarrow \theta - \eta (\bar\Delta + \mu v)

    Its inner optimizer was AdamW (4e-4, betas 0.9 0.95, weight decay 0.1), and H 500; here 100.

    Reference: Douillard et al., "DiLoCo: distributed low-communication training of language
    models", 2023, arXiv 2311.08105.
    """

    every: int = 100
    """H, steps of a round."""
    eta: float = 0.7
    """eta, the outer learning rate."""
    mu: float = 0.9
    """mu, the outer momentum."""
    form: str = "nesterov"
    """One of `FORMS`."""


@dataclass(frozen=True)
class SlowMo(Outer):
    r"""SlowMo: `Outer` with momentum in units of the gradient.

    .. math::
        v \leftarrow \mu v + \bar\Delta / \alpha, \qquad
        \theta \leftarrow \theta - \eta \alpha v

    Defaults eta = 1, mu = 0.7 (of the authors' 0.4 to 0.8), H = 48.

    Reference: Wang, Tantia, Ballas, Rabbat, "SlowMo: improving communication-efficient distributed
    SGD with slow momentum", ICLR 2020, arXiv 1910.00643.
    """

    every: int = 48
    """H, steps of a round."""
    mu: float = 0.7
    """mu, the outer momentum."""
    form: str = "slowmo"
    """One of `FORMS`."""
