"""Rows of a study are grouped over seeds, and scored for the pages of LENA and of the rivals."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from experiments.lena import plan
from experiments.lena.plan import SINGLE, Recipe, Study, Task
from experiments.lena.rows import Row, errors

GUESSING = 0.9
"""Error of a lost run, where means are compared: both data sets have ten classes."""


class Rows:
    """The rows of a study, found by recipe, n, task and base rate."""

    def __init__(self, study: Study, found: Mapping[str, Row]) -> None:
        self.study, self.found = study, found
        self.error_of = errors(found.values())

    def base_rate(self, task: Task) -> float | None:
        """The task's base rate; None as long as its trials are not all there."""
        return plan.base_rate(self.study, task, self.error_of)

    def group(
        self,
        recipe: Recipe,
        n: int,
        *,
        task: Task | None = None,
        lr: float | None = None,
        seeds: int | None = None,
    ) -> list[Row]:
        """The runs of a recipe over seeds that are there; of the main task at its base rate."""
        task = task or self.study.main
        lr = self.base_rate(task) if lr is None else lr
        if lr is None:
            return []
        keys = (plan.key(task, recipe, n, lr, s) for s in range(seeds or self.study.seeds))
        return [self.found[key] for key in keys if key in self.found]

    def singles(self, task: Task | None = None) -> list[Row]:
        """The single worker's runs at the base rate."""
        return self.group(SINGLE, 1, task=task, seeds=self.study.base_seeds)

    def target(self, task: Task | None = None) -> float:
        """The single worker's mean best error; NaN without runs."""
        best = [row.best_error for row in self.singles(task)]
        return fmean(best) if best else math.nan


def until(rows: Sequence[Row], name: str, form: str = ".2f") -> str:
    """Mean cost of reaching the target; N/A if no run reached it, with a count if only some did."""
    if not rows:
        return "-"
    values = [getattr(row, name) for row in rows if math.isfinite(getattr(row, name))]
    if not values:
        return "N/A"
    some = f" ({len(values)} of {len(rows)})" if len(values) < len(rows) else ""
    return f"{fmean(values):{form}}{some}"


def score(rows: Sequence[Row], name: str = "best_error") -> float:
    """Mean error in % for comparisons: a lost run has that of guessing; NaN without runs."""
    return 100 * fmean(GUESSING if r.lost else getattr(r, name) for r in rows) if rows else math.nan
