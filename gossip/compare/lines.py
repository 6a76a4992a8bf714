"""Runs combined into one line of the table for each method and number of learners."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gossip.compare.plan import Cell
from gossip.compare.rows import Row


class Summary(NamedTuple):
    """Mean and standard deviation over seeds, and how many had a number."""

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class Line:
    """The runs of one cell at its chosen values, one per seed."""

    cell: Cell
    total_batch: int
    rows: tuple[Row, ...]
    tuned: str
    trials: int
    """Runs that chose the values."""

    def over_seeds(self, name: str) -> Summary:
        """A column of `Row` over the runs that have it."""
        return summary([getattr(row, name) for row in self.rows])

    @property
    def diverged(self) -> int:
        """How many of the runs did."""
        return sum(row.verdict == "diverged" for row in self.rows)


def lines(made: Sequence[Row]) -> list[Line]:
    """Rows by total batch and method, in the order they come in; trials that lost are counted."""
    cells: dict[Cell, list[Row]] = {}
    for row in made:
        cells.setdefault(Cell(row.method, row.learners), []).append(row)
    result = []
    for cell, found in cells.items():
        kept = tuple(row for row in found if row.is_chosen)
        trials = sum(row.is_trial for row in found)
        if kept:
            result.append(Line(cell, kept[0].total_batch, kept, kept[0].tuned, trials))
    return result


def summary(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation of the finite values; NaN for one value alone."""
    finite = np.array([value for value in values if math.isfinite(value)])
    return Summary(
        float(finite.mean()) if len(finite) else math.nan,
        float(finite.std(ddof=1)) if len(finite) > 1 else math.nan,
        len(finite),
    )
