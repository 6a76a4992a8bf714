r"""Survival over the learning rate: a logistic curve, and the rate alpha_50 that half survive.

.. math:: P(\text{a run survives at } \alpha) = \frac{1}{1 + e^{-(a + b \ln\alpha)}}, \qquad
    \alpha_{50} = e^{-a/b}

Fitted by maximum likelihood with Firth's penalty (1/2) ln det I, which takes out the first order of
its bias and keeps it finite where all runs below some rate survive and all above it die.

References: Firth, "Bias reduction of maximum likelihood estimates", Biometrika 80, 1993; Heinze,
Schemper, "A solution to the problem of separation in logistic regression", Statistics in Medicine
21, 2002.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from experiments.common.statistics import LEVEL, RESAMPLES, Estimate
from gossip.errors import UserError

MOST_ITERATIONS, LONGEST_STEP, TOLERANCE = 200, 2.0, 1e-9
"""Of Newton's method, in units of a and b about the middle of the rates."""


class Cell(NamedTuple):
    """The runs at one learning rate."""

    alpha: float
    survived: int
    runs: int


@dataclass(frozen=True)
class Curve:
    """A fitted curve."""

    intercept: float
    slope: float
    """Of ln alpha; negative where larger rates are deadlier."""

    @property
    def alpha_50(self) -> float:
        """The learning rate that half of the runs survive; infinite where all rates are alike."""
        if not self.slope:
            return math.inf
        return float(np.exp(-self.intercept / self.slope))

    def at(self, alpha: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """P(a run survives at alpha)."""
        return expit(self.intercept + self.slope * np.log(alpha))


def fit(cells: Sequence[Cell]) -> Curve:
    """The curve of these runs.

    Raises:
        UserError: fewer than two rates, or counts that cannot be.
    """
    alphas, survived, runs = _columns(cells)
    intercept, slope = _fitted(np.log(alphas), survived[None], runs)[0]
    return Curve(float(intercept), float(slope))


def both_sides(cells: Sequence[Cell]) -> bool:
    """Whether the grid is long enough: most survive the least rate, and few the largest."""
    first, *_, last = sorted(cells)
    return 2 * first.survived > first.runs and 2 * last.survived < last.runs


def alpha_50(cells: Sequence[Cell], *, seed: int = 0, level: float = LEVEL) -> Estimate:
    """alpha_50 with a bootstrap interval: runs drawn anew from the fitted curve.

    Not from the runs themselves, among which a rate that all survive has no spread. Of curves that
    rise, which say that no rate is too large, alpha_50 is infinite.

    Raises:
        UserError: the grid does not reach from rates that most survive to those that few do.
    """
    rng = np.random.default_rng(seed)
    return _estimate(fit(cells).alpha_50, _halves(cells, rng), level)


def alpha_50_difference(
    first: Sequence[Cell], second: Sequence[Cell], *, seed: int = 0, level: float = LEVEL
) -> Estimate:
    """alpha_50 of the first runs minus that of the second, each drawn anew from its own curve.

    Where both are infinite, the difference may be anything: such a draw counts for both ends.

    Raises:
        UserError: as `alpha_50`.
    """
    rng = np.random.default_rng(seed)
    a, b = (_halves(cells, rng) for cells in (first, second))
    says = np.isfinite(a) | np.isfinite(b)
    least = np.subtract(a, b, out=np.full_like(a, -np.inf), where=says)
    most = np.where(says, least, np.inf)
    value = fit(first).alpha_50 - fit(second).alpha_50
    return Estimate(value, _estimate(value, least, level).low, _estimate(value, most, level).high)


def _halves(cells: Sequence[Cell], rng: np.random.Generator) -> NDArray[np.float64]:
    """alpha_50 of runs that are drawn anew."""
    if not both_sides(cells):
        raise UserError(
            "alpha_50 lies outside the learning rates that were run: extend the grid until most "
            "runs survive its least and few its largest"
        )
    alphas, _, runs = _columns(cells)
    drawn = rng.binomial(runs.astype(int), fit(cells).at(alphas), (RESAMPLES, len(runs)))
    a, b = _fitted(np.log(alphas), drawn.astype(float), runs).T
    return np.where(b < 0, np.exp(-a / np.where(b < 0, b, -1.0)), np.inf)


def _estimate(value: float, drawn: NDArray[np.float64], level: float) -> Estimate:
    tail = (1 - level) / 2
    # Of order statistics, not between two: some may be infinite.
    low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(value, float(low), float(high))


def _columns(cells: Sequence[Cell]) -> NDArray[np.float64]:
    if len({cell.alpha for cell in cells}) < 2:
        raise UserError("a survival curve needs runs at two learning rates or more")
    for alpha, survived, runs in cells:
        if not (alpha > 0 and runs >= 1 and 0 <= survived <= runs):
            raise UserError(f"{survived} of {runs} runs at alpha={alpha}: that cannot be")
    return np.array(cells, dtype=float).T


def _fitted(
    x: NDArray[np.float64], survived: NDArray[np.float64], runs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(a, b) of each row of `survived` [repetitions, cells], by Newton's method on Firth's score.

    U = sum_i z_i (k_i - n_i p_i + h_i (1/2 - p_i)), z = (1, x), h_i = n_i p_i (1 - p_i) z' I^-1 z.
    """
    middle, width = x.mean(), x.std()
    z = np.stack([np.ones_like(x), (x - middle) / width], axis=1)
    beta = np.zeros((len(survived), 2))
    for _ in range(MOST_ITERATIONS):
        p = expit(beta @ z.T)
        weight = runs * p * (1 - p)
        inverse = np.linalg.inv(np.einsum("ri,ij,ik->rjk", weight, z, z))
        leverage = weight * np.einsum("ij,rjk,ik->ri", z, inverse, z)
        score = (survived - runs * p + leverage * (0.5 - p)) @ z
        step = np.einsum("rjk,rk->rj", inverse, score)
        longest = np.abs(step).max(axis=1, keepdims=True)
        beta += step * np.minimum(1.0, LONGEST_STEP / np.maximum(longest, TOLERANCE))
        if longest.max() < TOLERANCE:
            break
    slope = beta[:, 1] / width
    return np.stack([beta[:, 0] - slope * middle, slope], axis=1)
