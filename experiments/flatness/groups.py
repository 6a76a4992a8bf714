"""Rows by rate, arm and level, and comparisons at equal loss with intervals."""

import math
from dataclasses import dataclass

from experiments.common.statistics import Estimate, mean
from experiments.flatness.rows import Row
from experiments.flatness.size import Cell, Size

LEAST = 3
"""Pairs that an interval is made from, at least."""


@dataclass(frozen=True)
class Measured:
    """What the study has."""

    size: Size
    rows: tuple[Row, ...]

    def at(self, cell: Cell, arm: str, level: float) -> list[Row]:
        """The runs of an arm where they are at a level, by seed; those never there have step -1."""
        wanted = (cell.alpha, arm, level)
        found = [
            row
            for row in self.rows
            if (row.alpha, row.arm, row.level) == wanted and row.seed in self.size.seeds
        ]
        return sorted(found, key=lambda row: row.seed)

    def complete(self, cell: Cell, arm: str) -> bool:
        """Whether all runs are there: before that, nothing is judged."""
        return all(
            len(self.at(cell, arm, level)) == len(self.size.seeds) for level in self.size.levels
        )

    def values(self, cell: Cell, arm: str, level: float, name: str) -> dict[int, float]:
        """A number of the runs that have it, by seed."""
        found = {row.seed: float(getattr(row, name)) for row in self.at(cell, arm, level)}
        return {seed: value for seed, value in found.items() if math.isfinite(value)}

    def ratio(
        self, first: tuple[Cell, str], second: tuple[Cell, str], level: float, name: str
    ) -> Estimate | None:
        """First over second as the geometric mean of the pairs of a seed; None: too few pairs.

        A seed gives both the same start and mini-batches. Only pairs of which both
        came to the level, with a number above 0, have a ratio.
        """
        a, b = (self.values(*which, level, name) for which in (first, second))
        logs = [math.log(a[s] / b[s]) for s in a.keys() & b.keys() if min(a[s], b[s]) > 0]
        return Estimate(*map(math.exp, mean(logs))) if len(logs) >= LEAST else None

    def difference(
        self, first: tuple[Cell, str], second: tuple[Cell, str], level: float, name: str
    ) -> Estimate | None:
        """First minus second, the mean of the pairs of a seed; None: too few pairs."""
        a, b = (self.values(*which, level, name) for which in (first, second))
        pairs = [a[seed] - b[seed] for seed in a.keys() & b.keys()]
        return mean(pairs) if len(pairs) >= LEAST else None

    def relative(self, cell: Cell, arm: str, level: float, name: str) -> Estimate | None:
        """A number over the loss of the mean model, the mean over the runs; None: too few."""
        found, loss = (self.values(cell, arm, level, which) for which in (name, "loss"))
        shares = [found[seed] / loss[seed] for seed in found.keys() & loss.keys()]
        return mean(shares) if len(shares) >= LEAST else None
