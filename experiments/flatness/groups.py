"""Rows by rate, arm and level, and comparisons at equal loss with intervals."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from experiments.common.statistics import Estimate, mean
from experiments.flatness.rows import Row
from experiments.flatness.size import Cell, Size

LEAST = 3
"""Pairs that an interval is made from, at least."""
MISSING = 2
"""Pairs of those planned that a verdict may lack: a run is lost for what it was, not by chance."""
UNEVEN = 1
"""Runs by which one side may have lost more than the other."""

Place = tuple[Cell, str]
"""An arm at a rate."""


@dataclass(frozen=True)
class Found:
    """What there is at a level."""

    estimate: Estimate | None
    """None: fewer than LEAST pairs, or numbers that cannot be compared."""
    count: str
    """How many of the planned pairs it is of."""
    reason: str = ""
    """Why nothing is judged by it; empty if it may be."""


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

    def came(self, which: Place, level: float) -> dict[int, Row]:
        """The runs that came to the level, by seed."""
        return {row.seed: row for row in self.at(*which, level) if row.step >= 0}

    def ratio(self, first: Place, second: Place, level: float, name: str) -> Found:
        """First over second as the geometric mean of the pairs of a seed.

        A seed gives both the same start and mini-batches. Both of a pair came to the level.
        """
        found = self._pairs(first, second, level, lambda a, b: _log_ratio(a, b, name))
        if found.estimate is None:
            return found
        return replace(found, estimate=Estimate(*map(math.exp, found.estimate)))

    def difference(self, first: Place, second: Place, level: float, name: str) -> Found:
        """First minus second, the mean of the pairs of a seed."""
        return self._pairs(first, second, level, lambda a, b: getattr(a, name) - getattr(b, name))

    def relative(self, which: Place, level: float, name: str) -> Found:
        """A number over the loss of the mean model, the mean over the runs."""
        values = [getattr(row, name) / row.loss for row in self.came(which, level).values()]
        return self._found(values, "runs")

    def _pairs(
        self, first: Place, second: Place, level: float, of: Callable[[Row, Row], float]
    ) -> Found:
        a, b = self.came(first, level), self.came(second, level)
        found = self._found([of(a[s], b[s]) for s in sorted(a.keys() & b.keys())], "pairs")
        if not found.reason and abs(len(a) - len(b)) > UNEVEN:
            return replace(found, reason=f"{len(a)} and {len(b)} runs came to it")
        return found

    def _found(self, values: list[float], what: str) -> Found:
        planned = len(self.size.seeds)
        said = f"{len(values)} of {planned} {what}"
        if not all(map(math.isfinite, values)):
            return Found(None, said, "not all have a number that can be compared")
        reason = "too few" if len(values) < max(LEAST, planned - MISSING) else ""
        return Found(mean(values) if len(values) >= LEAST else None, said, reason)


def _log_ratio(a: Row, b: Row, name: str) -> float:
    first, second = getattr(a, name), getattr(b, name)
    return math.log(first / second) if min(first, second) > 0 else math.nan
