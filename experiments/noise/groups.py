"""Rows by cell and arm, and their survival."""

from dataclasses import dataclass

from experiments.common.statistics import Estimate, share
from experiments.noise.arms import ARMS
from experiments.noise.rows import Row
from experiments.noise.size import Cell, Size


@dataclass(frozen=True)
class Measured:
    """What one cell of the study has."""

    size: Size
    cell: Cell
    rows: tuple[Row, ...]

    def arm(self, name: str) -> list[Row]:
        """Its runs, by seed."""
        found = [
            row
            for row in self.rows
            if (row.cell, row.arm) == (self.cell.name, name) and row.seed in self.size.seeds
        ]
        return sorted(found, key=lambda row: row.seed)

    def counts(self, name: str) -> tuple[int, int] | None:
        """How many of how many runs survived; None while some are missing."""
        found = self.arm(name)
        if len(found) < len(self.size.seeds):
            return None
        return sum(row.survived for row in found), len(found)

    def survival(self, name: str) -> Estimate | None:
        """Share of its runs that survived; None while some are missing."""
        counts = self.counts(name)
        return None if counts is None else share(*counts)

    @property
    def judged(self) -> bool:
        """Whether an arm has all its runs: before that, nothing is drawn and nothing judged."""
        return any(self.survival(name) for name in ARMS)
