"""Rows by cell, survival over the peaks, and the best peak of an arm."""

import math
from dataclasses import dataclass
from statistics import fmean

from experiments.common.statistics import Estimate, difference
from experiments.language.plan import Cell
from experiments.language.rows import Row
from experiments.language.size import Size


@dataclass(frozen=True)
class Measured:
    """What the study has."""

    size: Size
    rows: tuple[Row, ...]

    def at(self, cell: Cell) -> list[Row]:
        """The runs of a cell, by seed."""
        wanted = (cell.arm, cell.warmup, cell.peak)
        found = [
            row
            for row in self.rows
            if (row.arm, row.warmup, row.peak) == wanted and row.seed in self.size.seeds
        ]
        return sorted(found, key=lambda row: row.seed)

    def over_peaks(self, arm: str, warmup: int) -> list[list[Row]] | None:
        """The runs at each peak; None while some are missing."""
        found = [self.at(Cell(arm, warmup, peak)) for peak in self.size.peaks]
        return found if all(len(rows) == len(self.size.seeds) for rows in found) else None

    def counts(self, arm: str, warmup: int) -> list[tuple[int, int]] | None:
        """How many of how many runs survived at each peak; None while some are missing."""
        found = self.over_peaks(arm, warmup)
        if found is None:
            return None
        return [(sum(row.survived for row in rows), len(rows)) for rows in found]

    def best(self, arm: str, warmup: int) -> list[float] | None:
        """Test losses at the peak that is best on the first seed, of the other seeds.

        Of those that survived; None while runs are missing, or if fewer than two did.
        """
        found = self.over_peaks(arm, warmup)
        if found is None:
            return None
        tuned = [rows[0].test_loss if rows[0].survived else math.inf for rows in found]
        judged = found[tuned.index(min(tuned))][1:]
        losses = [row.test_loss for row in judged if row.survived]
        return losses if len(losses) > 1 else None

    def gain(self, first: str, second: str, warmup: int) -> Estimate | None:
        """Best test loss of the first arm less that of the second, nats a byte, unpaired."""
        a, b = self.best(first, warmup), self.best(second, warmup)
        return None if a is None or b is None else difference(a, b, paired=False)

    def mean_loss(self, cell: Cell) -> float:
        """Mean test loss of the runs of a cell that survived; NaN if none did."""
        losses = [row.test_loss for row in self.at(cell) if row.survived]
        return fmean(losses) if losses else math.nan
