"""Runs of the tuned tables by cell, and differences between cells with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.common import statistics
from experiments.common.statistics import Estimate
from experiments.common.tuning import ErrorAt
from experiments.lena.plan import Study
from experiments.lena.tuned import plan
from experiments.lena.tuned.plan import Cell, Size
from experiments.lena.tuned.rows import Row, known

GUESSING = 0.9
"""Test error of a lost run: there are ten classes. One of five makes an interval too wide for a
verdict; where all are lost, there is one."""


@dataclass(frozen=True)
class Measured:
    """The committed table, and the size of the study it is of."""

    size: Size
    shared: Study
    rows: Sequence[Row]

    def error(self, cell: Cell) -> ErrorAt:
        """Of the trials of a cell, by base rate."""
        return plan.error_at(cell, self.size, known({row.key: row for row in self.rows}))

    def tried(self, cell: Cell) -> tuple[float, ...]:
        """The base rates of a cell's trials, those to come as well."""
        return plan.grid(cell, self.size).tried(self.error(cell))

    def chosen(self, cell: Cell) -> float | None:
        """The base rate that its trials choose; None as long as one is missing."""
        return plan.grid(cell, self.size).chosen(self.error(cell))

    def is_at_end(self, cell: Cell) -> bool:
        """Whether that is at an end of the grid, however far it has grown."""
        return plan.grid(cell, self.size).is_at_end(self.error(cell))

    def judged(self, cell: Cell) -> list[Row]:
        """The runs so far at the chosen rate, on seeds that tuned nothing."""
        lr = self.chosen(cell)
        if lr is None:
            return []
        wanted = {plan.key(cell, lr, seed, self.size) for seed in self.size.seeds}
        return [row for row in self.rows if row.key in wanted]

    def contrast(self, terms: Sequence[tuple[Cell, float]]) -> Estimate | None:
        """Weighted sum of the cells' mean test errors, in points; None while runs are missing."""
        groups = [self.judged(cell) for cell, _ in terms]
        if any(len(group) < len(self.size.seeds) for group in groups):
            return None
        errors = [[points(row) for row in group] for group in groups]
        return statistics.contrast(errors, [weight for _, weight in terms])

    def left(self, cell: Cell) -> int:
        """How many runs of a cell are to come, were its grid to grow no more."""
        found = known({row.key: row for row in self.rows})
        wanted = plan.runs(cell, self.size, self.shared, found).keys()
        is_named = plan.grid(cell, self.size).is_done(self.error(cell))
        to_name = 0 if is_named else len(self.size.seeds)
        return len(wanted - {row.key for row in self.rows}) + to_name


def points(row: Row) -> float:
    """Test error at the end in %; that of guessing for a lost run."""
    return 100 * (GUESSING if row.lost else row.test_error)
