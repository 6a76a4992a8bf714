"""Runs of the study grouped over seeds, and differences between groups with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from experiments.adadamp.facts import Diversity, Schedule
from experiments.adadamp.methods import BASELINE
from experiments.adadamp.plan import chosen, key
from experiments.adadamp.rows import Point, Row, errors_of
from experiments.adadamp.size import Size
from experiments.adadamp.workers import Wait


@dataclass(frozen=True)
class Measured:
    """All of the committed tables, and the size of the study they are of."""

    size: Size
    schedules: Sequence[Schedule]
    diversity: Sequence[Diversity]
    rows: Sequence[Row]
    points: Sequence[Point]
    waits: Sequence[Wait] = ()

    def tuned(self, name: str) -> dict[int, Row]:
        """A method's runs by seed, at its own rate; empty as long as that is not known."""
        return self._by_seed(name, name)

    def scheduled(self, name: str) -> dict[int, Row]:
        """A schedule's runs by seed, at the rate of the baseline."""
        return self._by_seed(name, BASELINE)

    def _by_seed(self, name: str, tuned: str) -> dict[int, Row]:
        lr = chosen(tuned, self.size, errors_of(self.rows))
        if lr is None:
            return {}
        found = {row.key: row for row in self.rows}
        keys = {seed: key(name, lr, seed) for seed in self.size.seeds}
        return {seed: found[k] for seed, k in keys.items() if k in found}

    def curve(self, row: Row) -> list[Point]:
        """The evaluations of a run, in their order."""
        return [point for point in self.points if point.key == row.key]

    def is_whole(self, *groups: dict[int, Row]) -> bool:
        """Whether groups have all seeds."""
        return all(set(group) == set(self.size.seeds) for group in groups)


def error_at(curve: Sequence[Point], epoch: float) -> float:
    """Test error at an epoch, linear between evaluations."""
    epochs, errors = zip(*((point.epoch, point.test_error) for point in curve), strict=True)
    return float(np.interp(epoch, epochs, errors))


def first_at(curve: Sequence[Point], target: float, column: str) -> float:
    """Where an error was first at most `target`, in a column of `Point`; NaN: never."""
    hits = [getattr(point, column) for point in curve if point.test_error <= target]
    return hits[0] if hits else math.nan


def mean_error(rows: dict[int, Row]) -> float:
    """Mean test error as a share; NaN without runs."""
    return fmean(row.test_error for row in rows.values()) if rows else math.nan
