"""Runs of the study grouped over seeds, and differences between groups with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from experiments.methods.methods import compared
from experiments.methods.plan import chosen
from experiments.methods.rows import Row, losses_of
from experiments.methods.size import Size

Group = dict[int, Row]
"""A method's judged runs, by seed."""


@dataclass(frozen=True)
class Measured:
    """The committed table, and the size of the study it is of."""

    size: Size
    rows: Sequence[Row]

    def tuned(self, cell: str, name: str) -> Group:
        """A method's judged runs; empty as long as its trials are not all there."""
        best = chosen(cell, name, self.size, losses_of(self.rows))
        return {
            row.seed: row
            for row in self.rows
            if (row.cell, row.method, row.trial) == (cell, name, best)
            and row.seed in self.size.seeds
        }

    def whole(self, cell: str) -> dict[str, Group] | None:
        """The runs of all methods; None while some are missing."""
        found = {name: self.tuned(cell, name) for name in compared(self.size)}
        return found if self.is_whole(*found.values()) else None

    def is_whole(self, *groups: Group) -> bool:
        """Whether groups have all seeds."""
        return all(set(group) == set(self.size.seeds) for group in groups)


def mean_of(group: Group, column: str) -> float:
    """Mean of a column; NaN where it is of any of the runs, or there is none."""
    values = [getattr(row, column) for row in group.values()]
    return fmean(values) if values else math.nan


def front(groups: dict[str, Group], column: str) -> list[str]:
    """Methods that no other beats in both the mean of a column and the mean test loss."""
    points = {
        name: (mean_of(group, column), mean_of(group, "test_loss"))
        for name, group in groups.items()
        if group and not any(row.lost for row in group.values())
    }
    return [
        name
        for name, (cost, loss) in points.items()
        if not any(c <= cost and e <= loss and (c, e) != (cost, loss) for c, e in points.values())
    ]
