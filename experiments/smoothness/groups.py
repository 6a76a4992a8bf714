"""Rows by rate and arm, ratios with intervals, and how well a number tells which runs survive."""

import math
from dataclasses import dataclass

import numpy as np

from experiments.common.statistics import Estimate, auc, difference, mean
from experiments.smoothness.plan import ARMS, DPSGD
from experiments.smoothness.rows import Row
from experiments.smoothness.size import Size

LEAST = 3
"""Runs that an interval is made from, at least."""
DEAD = 2.2
"""Training loss from which on a run is dead at a step: all predictions alike have ln 10 = 2.30."""


@dataclass(frozen=True)
class Measured:
    """What the study has."""

    size: Size
    rows: tuple[Row, ...]

    def at(self, alpha: float, arm: str, step: int) -> list[Row]:
        """The runs of an arm after a step, by seed."""
        found = [r for r in self.rows if (r.alpha, r.arm, r.step) == (alpha, arm, step)]
        return sorted((r for r in found if r.seed in self.size.seeds), key=lambda r: r.seed)

    def complete(self, alpha: float, arm: str) -> bool:
        """Whether all runs are there: before that, nothing is judged."""
        planned = len(self.size.seeds)
        return all(len(self.at(alpha, arm, step)) == planned for step in self.size.at)

    def course(self, alpha: float, arm: str, name: str, steps: tuple[int, ...]) -> list[float]:
        """Of each run, the mean logarithm over the steps; runs without a number are left out."""
        if not self.complete(alpha, arm):
            return []
        columns = [[_log(row, name) for row in self.at(alpha, arm, step)] for step in steps]
        values = np.mean(columns, axis=0)
        return [float(value) for value in values if math.isfinite(value)]

    def level(
        self, alpha: float, arm: str, name: str, steps: tuple[int, ...], factor: float = 1.0
    ) -> Estimate | None:
        """Geometric mean of a number over the runs, times a factor."""
        return _geometric(self.course(alpha, arm, name, steps), factor)

    def alive(self, alpha: float, arm: str, step: int) -> list[Row]:
        """The runs that are not dead at a step; none while runs are missing."""
        found = self.at(alpha, arm, step) if self.complete(alpha, arm) else []
        return [row for row in found if row.none_loss < DEAD]

    def edge(self, alpha: float, arm: str, step: int) -> Estimate | None:
        """Alpha lambda_max / 2 of those, 1 at the edge of stability: their geometric mean."""
        values = [_log(row, "none_lambda_max") for row in self.alive(alpha, arm, step)]
        return _geometric([value for value in values if math.isfinite(value)], alpha / 2)

    def ratio(self, alpha: float, name: str, over: str, steps: tuple[int, ...]) -> Estimate | None:
        """One number of DPSGD's runs over another, geometric mean of the runs."""
        if not self.complete(alpha, DPSGD):
            return None
        columns = [
            [_log(row, name) - _log(row, over) for row in self.at(alpha, DPSGD, step)]
            for step in steps
        ]
        return _geometric([float(v) for v in np.mean(columns, axis=0) if math.isfinite(v)])

    def against(
        self, alpha: float, first: str, second: str, name: str, steps: tuple[int, ...]
    ) -> Estimate | None:
        """A number of one arm over that of another, by unpaired geometric means."""
        a, b = (self.course(alpha, arm, name, steps) for arm in (first, second))
        if min(len(a), len(b)) < LEAST:
            return None
        return Estimate(*map(math.exp, difference(a, b, paired=False)))

    def tells(
        self, name: str, arms: tuple[str, ...] = tuple(ARMS), dead: float = math.inf
    ) -> Estimate | None:
        """How often a run that died had a larger number than one that survived.

        At the largest rate alone: over several, the rate itself would tell. A run whose weights
        were no longer finite has the largest number.

        Args:
            name: of the number.
            arms: whose runs.
            dead: loss from which on a run has died by then, and is left out.
        """
        alpha = self.size.alphas[-1]
        if not all(self.complete(alpha, arm) for arm in arms):
            return None
        found = [
            (getattr(row, name), row.survived)
            for arm in arms
            for row in self.at(alpha, arm, self.size.tells)
            if dead == math.inf or row.none_loss < dead
        ]
        values = [math.inf if math.isnan(value) else value for value, _ in found]
        died = [value for value, (_, survived) in zip(values, found, strict=True) if not survived]
        lived = [value for value, (_, survived) in zip(values, found, strict=True) if survived]
        return auc(died, lived) if min(len(died), len(lived)) >= LEAST else None


def _geometric(logarithms: list[float], factor: float = 1.0) -> Estimate | None:
    """Geometric mean with its interval, times a factor; None of fewer than LEAST."""
    if len(logarithms) < LEAST:
        return None
    return Estimate(*(factor * math.exp(value) for value in mean(logarithms)))


def _log(row: Row, name: str) -> float:
    value = getattr(row, name)
    return math.log(value) if value > 0 else math.nan
