"""Estimates with intervals, and verdicts that can be yes, no or open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize, stats

from gossip.errors import UserError

LEVEL = 0.95
"""Confidence of the intervals, two-sided."""
RESAMPLES = 2_000
"""Of a bootstrap."""

Word = Literal["yes", "no", "open"]


class Estimate(NamedTuple):
    """A number and the interval that the truth is in, with the confidence asked for."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Value and interval with three digits."""
        return format(self, ".3g")

    def __format__(self, form: str) -> str:
        """Value and interval, each number in the form, three digits if there is none."""
        if not form:
            return str(self)
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


@dataclass(frozen=True)
class Criterion:
    """A statement "the truth lies in (low, high)", fixed before the runs.

    "a < b" is `Criterion(high=0)` for a - b, "as good as, within half a point" is
    `Criterion(-0.5, 0.5)`.
    """

    low: float = -math.inf
    high: float = math.inf

    def verdict(self, estimate: Estimate) -> Word:
        """Yes if the whole interval meets it, no if none of it does, open otherwise."""
        if self.low < estimate.low and estimate.high < self.high:
            return "yes"
        if estimate.high <= self.low or self.high <= estimate.low:
            return "no"
        return "open"


def every(words: Sequence[Word]) -> Word:
    """The verdict on a statement about several cases: no if it fails in one, yes if in none."""
    if "no" in words:
        return "no"
    return "yes" if set(words) == {"yes"} else "open"


def share(successes: int, runs: int, level: float = LEVEL) -> Estimate:
    """Share of runs, such as of those that survive, with Wilson's score interval.

    Raises:
        UserError: there are no runs, or fewer than successes.
    """
    _counts(successes, runs)
    found = stats.binomtest(successes, runs).proportion_ci(level, method="wilson")
    return Estimate(successes / runs, float(found.low), float(found.high))


def share_difference(
    first: tuple[int, int], second: tuple[int, int], level: float = LEVEL
) -> Estimate:
    r"""Difference p - q of two shares, each given as (successes, runs).

    .. math::
        \hat p - \hat q - \sqrt{(\hat p - l_p)^2 + (u_q - \hat q)^2}, \qquad
        \hat p - \hat q + \sqrt{(u_p - \hat p)^2 + (\hat q - l_q)^2}

    from the two Wilson intervals [l, u].

    Reference: Newcombe, "Interval estimation for the difference between independent proportions",
    Statistics in Medicine 17, 1998, method 10.
    """
    p, q = share(*first, level), share(*second, level)
    value = p.value - q.value
    low = value - math.hypot(p.value - p.low, q.high - q.value)
    return Estimate(value, low, value + math.hypot(p.high - p.value, q.value - q.low))


def stratified_difference(
    pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]], level: float = LEVEL
) -> Estimate:
    r"""Mean over strata, such as learning rates, of differences of two shares.

    .. math:: \bar d - \frac1K \sqrt{\sum_k (d_k - l_k)^2}, \qquad
        \bar d + \frac1K \sqrt{\sum_k (u_k - d_k)^2}

    from `share_difference` of each. Where the strata differ much, an interval from all counts
    together is too wide.

    Args:
        pairs: of each stratum, (successes, runs) of the first and of the second.
        level: of the interval.

    Reference: Zou, Donner, "Construction of confidence limits about effect measures: a general
    approach", Statistics in Medicine 27, 2008.
    """
    found = [share_difference(*pair, level) for pair in pairs]
    value = sum(each.value for each in found) / len(found)
    below = math.hypot(*(each.value - each.low for each in found)) / len(found)
    above = math.hypot(*(each.high - each.value for each in found)) / len(found)
    return Estimate(value, value - below, value + above)


def difference(
    first: Sequence[float], second: Sequence[float], *, paired: bool, level: float = LEVEL
) -> Estimate:
    """Mean of the first minus mean of the second, with Student's or Welch's interval.

    Args:
        first: one number of each run.
        second: of the runs it is compared with; of the same designs in the same order if paired.
        paired: whether a run and its partner have something in common, such as their data. Near
            the edge of stability a seed is nothing in common.
        level: of the interval.

    Raises:
        UserError: fewer than two runs, numbers that are not finite, or half a pair.
    """
    a, b = _samples(first, second, paired=paired)
    if paired:
        return mean(a - b, level)
    return contrast((a, b), (1.0, -1.0), level)


def contrast(
    samples: Sequence[Sequence[float] | np.ndarray],
    weights: Sequence[float],
    level: float = LEVEL,
) -> Estimate:
    r"""Weighted sum of the means of independent samples, such as a mean of differences.

    .. math:: \sum_i w_i \bar x_i \pm t_\nu \Bigl(\sum_i p_i\Bigr)^{1/2}, \qquad
        p_i = w_i^2 s_i^2 / n_i, \qquad \nu = \Bigl(\sum_i p_i\Bigr)^2 \Big/
        \sum_i \frac{p_i^2}{n_i - 1}

    Args:
        samples: numbers of the runs of each group.
        weights: of their means; (1, -1) is Welch's difference.
        level: of the interval.

    Raises:
        UserError: a sample of fewer than two runs, or numbers that are not finite.

    Reference: Satterthwaite, "An approximate distribution of estimates of variance components",
    Biometrics Bulletin 2, 1946.
    """
    found = [_finite(sample) for sample in samples]
    value = float(sum(w * x.mean() for w, x in zip(weights, found, strict=True)))
    parts = np.array(
        [
            w**2 * x.var(ddof=1) / len(x) if np.ptp(x) else 0.0
            for w, x in zip(weights, found, strict=True)
        ]
    )
    if not parts.any():
        return Estimate(value, value, value)
    freedom = parts.sum() ** 2 / float((parts**2 / [len(x) - 1 for x in found]).sum())
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(parts.sum())
    return Estimate(value, value - half, value + half)


def mean(values: Sequence[float] | np.ndarray, level: float = LEVEL) -> Estimate:
    """Mean with Student's interval; values that are all the same have one of width 0.

    Raises:
        UserError: fewer than two values, or some that are not finite.
    """
    x = _finite(values)
    if np.ptp(x) == 0:
        return Estimate(*[float(x[0])] * 3)
    found = stats.ttest_1samp(x, 0.0).confidence_interval(level)
    return Estimate(float(x.mean()), float(found.low), float(found.high))


def bootstrap_difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    paired: bool,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """`difference` with a bootstrap interval (BCa), for errors that are far from normal.

    Below some ten runs it is too narrow: use `difference`.
    """
    a, b = _samples(first, second, paired=paired)
    value = float(a.mean() - b.mean())
    constant = np.ptp(a - b) == 0 if paired else np.ptp(a) == np.ptp(b) == 0
    if constant:
        return Estimate(value, value, value)
    found = stats.bootstrap(
        (a, b),
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        paired=paired,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=level,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(value, float(found.low), float(found.high))


def auc(larger: Sequence[float], smaller: Sequence[float], level: float = LEVEL) -> Estimate:
    r"""P(a number of the first sample is larger than one of the second), ties counted half.

    .. math:: \hat\theta = \frac{U}{mn}, \qquad |\hat\theta - \theta| \le z \sqrt{V(\theta)},
        \qquad V(\theta) = \frac{\theta(1-\theta)}{mn} \Bigl(1 + \bigl(\tfrac{m+n}{2} - 1\bigr)
        \Bigl(\frac{1-\theta}{2-\theta} + \frac{\theta}{1+\theta}\Bigr)\Bigr)

    The interval is of the theta that meet the inequality, so it has a width at 0 and 1, too.
    Numbers may be infinite.

    Raises:
        UserError: an empty sample, or a number that is NaN.

    Reference: Newcombe, "Confidence intervals for an effect measure based on the Mann-Whitney
    statistic. Part 2", Statistics in Medicine 25, 2006, method 5.
    """
    a, b = (np.asarray(sample, dtype=float) for sample in (larger, smaller))
    if min(len(a), len(b)) < 1 or np.isnan(a).any() or np.isnan(b).any():
        raise UserError("give two samples of at least one number each, and no NaN")
    pairs = (a[:, None] > b) + 0.5 * (a[:, None] == b)
    value, m, n = float(pairs.mean()), len(a), len(b)
    z = float(stats.norm.ppf((1 + level) / 2))

    def outside(theta: float) -> float:
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) / (m * n) * (1 + ((m + n) / 2 - 1) * spread)
        return (value - theta) ** 2 - z**2 * variance

    near = 1e-9  # at 0 and 1 the inequality is met with equality by the value itself
    low = float(optimize.brentq(outside, 0.0, min(value, 1 - near))) if value > 0 else 0.0
    high = float(optimize.brentq(outside, max(value, near), 1.0)) if value < 1 else 1.0
    return Estimate(value, low, high)


def _samples(
    first: Sequence[float], second: Sequence[float], *, paired: bool
) -> tuple[np.ndarray, np.ndarray]:
    a, b = _finite(first), _finite(second)
    if paired and len(a) != len(b):
        raise UserError(f"{len(a)} runs are paired with {len(b)}: each has one partner")
    return a, b


def _finite(values: Sequence[float] | np.ndarray) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        raise UserError(f"{len(x)} run: an interval needs at least 2")
    if not np.isfinite(x).all():
        raise UserError("nothing is averaged over runs that died: leave them out, and count them")
    return x


def _counts(successes: int, runs: int) -> None:
    if not 0 <= successes <= runs or runs < 1:
        raise UserError(f"{successes} of {runs} runs: at least one run, and no more successes")
