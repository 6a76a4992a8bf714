"""AdaScale: the gain of a larger batch, from the variance of its gradients."""

from dataclasses import dataclass
from typing import NamedTuple

from gossip.errors import UserError, one_of
from gossip.rates.base import Norms, RateContext
from gossip.rates.scaling import ScaleFactor
from gossip.rates.variance import Variance

AVERAGES = ("plain", "debiased")
"""How the first steps are averaged; see `AdaScale.average`."""
FIRSTS = ("one", "measured")
PROGRESS = ("epochs", "tau")


class Moments(NamedTuple):
    """Moving averages of sigma^2 and mu^2."""

    sigma2: float = 0.0
    mu2: float = 0.0
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class AdaScale:
    r"""Gain r_t in [1, S] of a batch S times as large.

    .. math::
        \hat\sigma^2 = \tfrac{S}{n-1} \Big(\tfrac1n \sum_i \|g_i\|^2 - \|g_a\|^2\Big), \quad
        \hat\mu^2 = \|g_a\|^2 - \hat\sigma^2 / S, \quad
        r_t = \frac{\bar\sigma^2 + \bar\mu^2}{\bar\sigma^2 / S + \bar\mu^2}

    The bars are exponential moving averages with theta = max(1 - S/1000, 0); estimates are
    clipped at 1e-6 and 0 first. One learner alone has r = 1 (fairscale refuses it).

    Reference: Johnson et al., "AdaScale SGD", arXiv 2007.05105, Sections 3 and 4; `debiased`
    and `measured` are what fairscale does.
    """

    learners: int
    """n."""
    scale: float
    """S."""
    average: str = "plain"
    """plain: the mean of all steps until theta's window is full; debiased: corrected for the
    start at zero."""
    first: str = "one"
    """one: r_0 = 1; measured: from the gradients of step 0."""
    progress: str = "epochs"
    """epochs: the decay follows the samples and the budget is fixed; tau: it follows tau, the sum
    of the gains, and the run ends when tau reaches S T, the steps of the baseline's batch."""

    needs_norms = True
    per_layer = False

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(AVERAGES, self.average, "AdaScale average")
        one_of(FIRSTS, self.first, "first AdaScale gain")
        one_of(PROGRESS, self.progress, "AdaScale progress")
        if not self.scale >= 1:
            raise UserError(
                f"AdaScale for a batch {self.scale:g} times the baseline's: it must be at least "
                "once as large; choose a smaller --baseline-batch"
            )

    @property
    def counts_tau(self) -> bool:
        """Whether the run's time is tau."""
        return self.progress == "tau"

    @property
    def nominal(self) -> float:
        """S."""
        return self.scale

    @property
    def theta(self) -> float:
        """Decay of the moving averages."""
        return max(1 - self.scale / 1000, 0.0)

    def init(self) -> Moments:
        """State before step 0: no gradient seen yet."""
        return Moments()

    def update(
        self, t: float, variance: Variance | None, state: Moments
    ) -> tuple[ScaleFactor, Moments]:
        """The gain r_t of this step."""
        assert variance is not None
        if self.learners > 1 and variance.norms.finite:
            state = self._average(*self.estimate(variance.norms), state)
        gain = self.gain(state)
        if t == 0 and self.first == "one":
            gain = 1.0
        return ScaleFactor(gain, gain, gain if self.counts_tau else None), state

    def estimate(self, norms: Norms) -> tuple[float, float]:
        """sigma^2 and mu^2 from one step's gradients."""
        squares, square_of_mean = float(norms.squares.sum()), float(norms.square_of_mean.sum())
        sigma2 = (squares - square_of_mean) * self.scale / (self.learners - 1)
        mu2 = square_of_mean - sigma2 / self.scale
        return max(sigma2, 1e-6), max(mu2, 0.0)

    def gain(self, state: Moments) -> float:
        """The gain r of the averages; 1 before any gradient was seen."""
        bottom = state.sigma2 / self.scale + state.mu2
        return (state.sigma2 + state.mu2) / bottom if bottom > 0 else 1.0

    def _average(self, sigma2: float, mu2: float, state: Moments) -> Moments:
        # Both starts are the same recursion with another weight of the newest number: 1/count is
        # the plain mean, (1 - theta)/(1 - theta^count) the corrected moving average.
        count = state.count + 1
        theta = self.theta
        weight = 1 - theta
        if self.average == "debiased":
            weight /= 1 - theta**count
        elif state.count < 1000 / self.scale:
            weight = 1 / count
        return Moments(
            state.sigma2 + weight * (sigma2 - state.sigma2),
            state.mu2 + weight * (mu2 - state.mu2),
            count,
        )


def adascale(
    context: RateContext, *, average: str = "plain", first: str = "one", progress: str = "epochs"
) -> AdaScale:
    """`AdaScale` with S = n B / B_0; one learner alone has S = 1, as nothing can be measured."""
    budget = context.budget
    return AdaScale(
        learners=budget.learners,
        scale=budget.scale if budget.learners > 1 else 1.0,
        average=average,
        first=first,
        progress=progress,
    )
