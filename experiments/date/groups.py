"""Rows of the DATE study by cell, and differences between cells with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from experiments.common import statistics
from experiments.common.statistics import LEVEL, Estimate
from experiments.common.tuning import ErrorAt
from experiments.date import lipschitz, plan
from experiments.date.methods import BY_LOSS
from experiments.date.plan import PARTS, Cell
from experiments.date.rows import Row, known
from experiments.date.size import Study

GUESSING = {"lenet": 0.9, "lstm": 0.9, "backwards": 26 / 27, "words": math.log(2_000)}
"""What a run is judged with whose loss was not finite: the test error, on words the loss, of
guessing evenly. One of five makes an interval too wide for a verdict; where all are lost, there is
one. A run whose loss on words is even larger counts as that."""


@dataclass(frozen=True)
class Measured:
    """The committed table, and the size of the study it is of."""

    size: Study
    rows: Sequence[Row]

    @property
    def by_key(self) -> dict[str, Row]:
        """The rows by name."""
        return {row.key: row for row in self.rows}

    def error(self, cell: Cell) -> ErrorAt:
        """Of the trials that choose a cell's rate."""
        return plan.error_at(cell, self.size, known(self.by_key))

    def tried(self, cell: Cell) -> tuple[float, ...]:
        """The base rates of these trials, those to come as well."""
        return plan.grid(cell, self.size).tried(self.error(cell))

    def chosen(self, cell: Cell) -> float | None:
        """The base rate of a cell; None as long as one of its trials is missing."""
        return plan.chosen(cell, self.size, known(self.by_key))

    def is_at_end(self, cell: Cell) -> bool:
        """Whether the best of the trials is at an end of the grid, however far it has grown."""
        return plan.grid(cell, self.size).is_at_end(self.error(cell))

    def judged(self, cell: Cell) -> list[Row]:
        """The runs so far of a cell, on seeds that tuned nothing."""
        lr = self.chosen(cell)
        if lr is None:
            return []
        wanted = [plan.key(cell, lr, seed, self.size) for seed in cell.seeds(self.size)]
        return [self.by_key[key] for key in wanted if key in self.by_key]

    def by_error(self) -> list[Cell]:
        """The cells that have judged runs, and are judged by their errors."""
        cells = [cell for part in PARTS.values() for cell in part if cell.task not in BY_LOSS]
        return [cell for cell in cells if self.judged(cell)]

    def whole(self, cell: Cell) -> list[Row] | None:
        """All of them; None while runs are missing."""
        found = self.judged(cell)
        return found if len(found) == len(cell.seeds(self.size)) else None

    def difference(self, ours: Cell, theirs: Cell) -> Estimate | None:
        """Mean `points` of one cell less those of another; None while runs are missing.

        Unpaired, Welch's interval.
        """
        first, second = self.whole(ours), self.whole(theirs)
        if first is None or second is None:
            return None
        return statistics.difference(*(list(map(points, g)) for g in (first, second)), paired=False)

    def lipschitz(self) -> dict[int, list[Row]]:
        """The runs so far about the local Lipschitz constant, by batch."""
        of, by_key = self.size.lipschitz, self.by_key
        keys = {b: [lipschitz.key(b, s, self.size) for s in of.seeds] for b, *_ in of.cells}
        return {b: [by_key[k] for k in wanted if k in by_key] for b, wanted in keys.items()}

    def left(self, part: str) -> int:
        """How many runs of a part are to come, were no grid to grow any more."""
        if part == plan.LIPSCHITZ:
            return len(lipschitz.runs(self.size).keys() - self.by_key.keys())
        wanted: set[str] = set()
        to_name = 0
        for cell in PARTS[part]:
            wanted |= plan.runs(cell, self.size, known(self.by_key)).keys()
            is_named = plan.grid(cell, self.size).is_done(self.error(cell))
            to_name += 0 if is_named else len(cell.seeds(self.size))
        return len(wanted - self.by_key.keys()) + to_name


def points(row: Row) -> float:
    """Test error of the final model in %, on words 100 times its loss, up to that of GUESSING."""
    judged = row.test_loss if row.task in BY_LOSS else row.test_error
    is_lost = not math.isfinite(row.train_loss)
    return 100 * (GUESSING[row.task] if is_lost else min(judged, GUESSING[row.task]))


def shown(task: str, value: float) -> float:
    """What is printed of `points`: a test error in %, or a perplexity, up to that of GUESSING."""
    return math.exp(min(value / 100, GUESSING[task])) if task in BY_LOSS else value


def slope(x: Sequence[float], y: Sequence[float]) -> Estimate:
    """Least-squares slope of y over x with Student's interval: an elasticity, if both are logs."""
    found = stats.linregress(x, y)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 2)) * float(found.stderr)
    value = float(found.slope)
    return Estimate(value, value - half, value + half)


def elasticity(found: dict[int, list[Row]]) -> Estimate:
    """Slope of ln(epoch of the peak of L) over ln B; 1 where it is in proportion to the batch."""
    pairs = [(math.log(b), math.log(row.peak_epoch)) for b, rows in found.items() for row in rows]
    x, y = np.array(pairs).T
    return slope(x.tolist(), y.tolist())
