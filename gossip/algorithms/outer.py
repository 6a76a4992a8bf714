r"""Rounds: H inner steps alone, then an outer optimizer on what all have done in them.

With theta the weights at the beginning of a round and x_j learner j's at its end, the
pseudo-gradient is Delta_j = theta - x_j, which points uphill as a gradient does, and its mean
\bar Delta is what the outer optimizer takes. Local SGD, SlowMo, DiLoCo and (for one learner)
Lookahead differ in that optimizer alone; others differ in when learners meet (`streaming`), whom
they meet (`partners`) and what they send (`sparse_rounds`).
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import NO_ROWS, Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.bounds import SMALLEST_RATE, share_below_one
from gossip.algorithms.moments import averaged
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator, Pending
from gossip.errors import UserError, one_of
from gossip.optim.flat import FlatOptimizer

MOMENTS = ("local", "mean")
FORMS = ("nesterov", "heavy-ball", "slowmo")


class Now(NamedTuple):
    """Where the learners are after t steps, when they may meet."""

    t: int
    x: Tensor
    """Weights after the inner step, [local, d]."""
    rows: Rows
    """What is kept."""
    lr: "float | Tensor"
    """Of the step."""
    w: csr_array
    """W of the step."""
    comm: Communicator
    optimizer: FlatOptimizer
    pending: Pending | None
    """What is under way, if something is."""


class Met(NamedTuple):
    """What came of their meeting."""

    x: Tensor
    """Weights that the next step begins with, [local, d]."""
    rows: Rows
    """What is kept."""
    pending: Pending | None = None
    """What is under way, if something is."""


@dataclass(frozen=True)
class Outer(Method):
    r"""Local steps, and every H-th step an outer step from the exact mean.

    .. math::
        \bar\Delta = \theta - \frac1n \sum_j x_j, \qquad v \leftarrow \mu v + \bar\Delta, \qquad
        \theta \leftarrow \theta - \eta (\bar\Delta + \mu v) \text{ or } \theta - \eta v, \qquad
        x_j \leftarrow \theta

    with Nesterov's momentum, or heavy ball; ``slowmo`` keeps v in units of the gradient, v <- mu v
    + \bar\Delta / alpha and theta <- theta - eta alpha v, which differs where alpha changes. Where
    alpha <= 1e-8 in a round's last step, theta <- theta - eta \bar\Delta, and v stays as it is.

    The inner optimizer's state stays local and goes on through the rounds, or with ``moments=mean``
    is averaged at their ends as the weights are (local Adam); weight decay and the learning rate's
    schedule are those of inner steps. Rounds end after steps H, 2H, ...; what is
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
    moments: str = field(default="local", kw_only=True)
    """One of `MOMENTS`: what becomes of the inner optimizer's at the end of a round."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.every < 1:
            raise UserError(f"every={self.every}: a round has at least 1 step")
        if not 0 < self.eta < 10:
            raise UserError(f"eta={self.eta}: it is an outer learning rate, in (0, 10)")
        share_below_one("mu", self.mu)
        one_of(FORMS, self.form, "option form")
        one_of(MOMENTS, self.moments, "option moments")

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """SlowMo divides by the rate; learners in a round build on one theta."""
        return Properties(
            columns="any",
            one_rate=self.form == "slowmo",
            survives=False,
            shares_moments=self.moments == "mean",
        )

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes an average."""
        return (phases.LocalGradient(), phases.Every(self.every, self._average))

    @property
    def _average(self) -> phases.Mean:
        """Weights, and perhaps what the optimizer keeps of them."""
        if self.moments == "local":
            return phases.Mean()
        return phases.Mean(1 + self.optimizer().kept_per_weight)

    def start(self, x: Tensor) -> Rows:
        """The first round begins here."""
        return {"anchor": x, "momentum": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step alone; then what the learners do together."""
        gradients = gradient(state.x)
        direction = self.direction(gradients.values, state.step, comm)
        lr = rate(state.x, gradients, None, direction)
        x_next = state.optimizer.step(state.x, direction, lr)
        now = Now(state.step + 1, x_next, state.rows, lr, w, comm, state.optimizer, state.pending)
        x_next, rows, pending = self.meet(now)
        return (
            State(state.step + 1, x_next, state.optimizer, rows, pending),
            Step(state.x, gradients.values, gradients.losses, state.x, lr),
        )

    def direction(self, gradients: Tensor, t: int, comm: Communicator) -> Tensor:
        """What the inner optimizer takes in step t, [local, d]."""
        return gradients

    def meet(self, now: Now) -> Met:
        """What the learners do together: at the end of a round the outer step, else nothing."""
        if now.t % self.every:
            return Met(now.x, now.rows)
        agreed, kept = self.agree(now)
        theta, v = self.outer(agreed, now.rows["anchor"], now.rows["momentum"], now.lr)
        return Met(theta, {**kept, "anchor": theta, "momentum": v})

    def agree(self, now: Now) -> tuple[Tensor, Rows]:
        """Where the round has led all, [d] or [local, d], and what is kept of finding out."""
        if self.moments == "mean":
            return averaged(now.x, now.optimizer, now.comm.mean), NO_ROWS
        return now.comm.mean(now.x), NO_ROWS

    def outer(
        self, agreed: Tensor, theta: Tensor, v: Tensor, lr: "float | Tensor"
    ) -> tuple[Tensor, Tensor]:
        """The next theta and v, from where the round has led."""
        delta = theta - agreed
        if self.form == "slowmo" and float(lr) <= SMALLEST_RATE:
            ahead = torch.zeros_like(v)  # this alpha tells nothing of the gradients in delta
        elif self.form == "slowmo":
            v = self.mu * v + delta / float(lr)
            ahead = float(lr) * v - delta
        else:
            v = self.mu * v + delta
            ahead = self.mu * v if self.form == "nesterov" else v - delta
        if self.eta == 1 and self.mu == 0:
            return agreed.expand_as(theta).contiguous(), v  # where it has led, to the bit
        return theta - self.eta * (delta + ahead), v


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

    with alpha of the round's last step (`Outer` says what is done where that is 0).
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


@dataclass(frozen=True)
class Lookahead(Outer):
    r"""Lookahead: `Outer` without momentum that goes half of the way, eta = 0.5.

    .. math:: \theta \leftarrow \theta + \eta (\bar x - \theta), \qquad x_j \leftarrow \theta

    For one learner it is the method of the paper, whose defaults these are (H = 5); for several the
    slow weights are common to all.

    Reference: Zhang, Lucas, Ba, Hinton, "Lookahead optimizer: k steps forward, 1 step back",
    NeurIPS 2019, arXiv 1907.08610.
    """

    every: int = 5
    """H, steps of a round."""
    eta: float = 0.5
    """eta, the outer learning rate."""


@dataclass(frozen=True)
class PostLocal(Outer):
    r"""Post-local SGD: gradients averaged at every step in the beginning, `Outer` behind it.

    .. math:: u_j = \mathrm{OPT}_j(x_j, \bar g) - x_j \text{ in the first } T_0 \text{ steps}

    In them all learners are SSGD, and alike, their optimizers too. Rounds end H, 2H, ... steps
    after them.

    - sent: an average of one row, at every one of the first T_0 steps, then every H steps
    - defaults: T_0 = 100 (ours), H = 8

    Reference: Lin, Stich, Patel, Jaggi, "Don't use large mini-batches, use local SGD", ICLR 2020,
    arXiv 1808.07217.
    """

    after: int = 100
    """T_0, the first steps."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if self.after < 0:
            raise UserError(f"after={self.after}: it is a number of steps, 0 or more")

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """At first the optimizer takes the mean gradient."""
        return replace(super().properties, steers=True)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and an average of gradients or sometimes of weights."""
        rounds = phases.Every(self.every, self._average, after=self.after)
        return (phases.LocalGradient(), phases.Until(self.after, phases.Mean()), rounds)

    def direction(self, gradients: Tensor, t: int, comm: Communicator) -> Tensor:
        """The mean gradient in the beginning, then the learner's own."""
        return comm.mean(gradients).repeat(len(gradients), 1) if t < self.after else gradients

    def meet(self, now: Now) -> Met:
        """Rounds begin behind the first steps."""
        if now.t <= self.after:
            return Met(now.x, {**now.rows, "anchor": now.x})
        return super().meet(now._replace(t=now.t - self.after))
