"""Rows of the study by method and rate, and the comparisons that its criteria are about."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.common import statistics, survival
from experiments.common.statistics import Estimate
from experiments.fight import doubling
from experiments.fight.methods import METHODS
from experiments.fight.plan import EDGE, ErrorOf, chosen, error_at, fight, grid, key
from experiments.fight.rows import Row, known
from experiments.fight.size import Cell, Size
from gossip.errors import UserError

Term = tuple[Cell, str, float]
"""A method in a cell, and the weight of its mean error."""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of mean test errors, in points, over the runs that survived."""

    estimate: Estimate
    lost: tuple[tuple[int, int], ...]
    """Runs that did not survive, cell by cell, of positive and of negative weights."""


@dataclass(frozen=True)
class Measured:
    """The committed table, and the size of the study it is of."""

    size: Size
    rows: Sequence[Row]

    @property
    def error(self) -> ErrorOf:
        """Validation errors of the trials."""
        return known(self.rows).get

    def edge(self, method: str) -> list[survival.Cell]:
        """How many of how many runs survive at each rate that has runs so far."""
        found = [
            row
            for row in self.rows
            if (row.part, row.method) == (EDGE, method) and row.seed in self.size.edge_seeds
        ]
        at = {alpha: [r.survived for r in found if r.alpha == alpha] for alpha in self.size.alphas}
        return [survival.Cell(a, sum(at[a]), len(at[a])) for a in sorted(at) if at[a]]

    def curve(self, method: str) -> list[survival.Cell] | None:
        """`edge`, or None while runs are missing."""
        cells, planned = self.edge(method), len(self.size.edge_seeds)
        is_whole = len(cells) == len(self.size.alphas) and all(c.runs == planned for c in cells)
        return cells if is_whole else None

    def alpha_50(self, method: str) -> Estimate | None:
        """The rate that half of the runs so far survive; None if it cannot be said."""
        return half(self.edge(method))

    def tuned(self, cell: Cell, method: str) -> list[Row]:
        """The judged runs so far, at the rate that the trials chose; none before they did."""
        best = chosen(cell, method, self.size, self.error)
        if best is None:
            return []
        wanted = {key(cell, method, best, seed) for seed in self.size.seeds}
        return [row for row in self.rows if row.key in wanted]

    def is_at_end(self, cell: Cell, method: str) -> bool:
        """Whether the chosen rate is at an end of the grid, however far that has grown."""
        of = error_at(cell, method, self.size, self.error)
        return grid(cell, self.size).is_at_end(of)

    def contrast(self, terms: Sequence[Term]) -> Contrast | None:
        """Of the terms; None while one of them has runs to come.

        Raises:
            UserError: fewer than two runs of one of them survived.
        """
        groups = [self.tuned(cell, method) for cell, method, _ in terms]
        if any(len(group) < len(self.size.seeds) for group in groups):
            return None
        cells = [cell.name for cell, *_ in terms]
        return contrast(groups, [weight for *_, weight in terms], cells)

    def doubled(self, method: str, batch: int, alpha: float) -> list[Row]:
        """The runs so far of the paper's recipe, at a batch and a rate."""
        wanted = {doubling.key(method, batch, alpha, s) for s in self.size.doubling_seeds}
        return [row for row in self.rows if row.key in wanted]

    def halved(self, method: str) -> list[Row] | None:
        """At the largest batch, the largest rate that more than half survive.

        None while runs are missing, empty if there is no such rate.
        """
        planned = len(self.size.doubling_seeds)
        groups = [self.doubled(method, *cell) for cell in doubling.halved(self.size)]
        if any(len(group) < planned for group in groups):
            return None
        alive = (g for g in groups if 2 * sum(row.survived for row in g) > planned)
        return next(alive, [])

    def left(self, cell: Cell) -> int:
        """How many runs of a cell are to come, were no grid to grow any more."""
        wanted = set(fight(cell, self.size, self.error)) - {row.key for row in self.rows}
        rates = grid(cell, self.size)
        trials = [error_at(cell, method, self.size, self.error) for method in METHODS]
        to_name = sum(not rates.is_done(errors) for errors in trials)
        return len(wanted) + to_name * len(self.size.seeds)

    def count(self, part: str) -> int:
        """How many runs of a part there are."""
        return sum(row.part == part for row in self.rows)


def contrast(
    groups: Sequence[Sequence[Row]], weights: Sequence[float], cells: Sequence[str]
) -> Contrast:
    """Weighted sum of the mean test errors of the groups' survivors, in points.

    Raises:
        UserError: fewer than two runs of a group survived.
    """
    kept = [[100 * row.test_error for row in group if row.survived] for group in groups]
    found = statistics.contrast(kept, weights)
    lost = dict.fromkeys(cells, (0, 0))
    for group, alive, weight, cell in zip(groups, kept, weights, cells, strict=True):
        (first, second), count = lost[cell], len(group) - len(alive)
        lost[cell] = (first + count, second) if weight > 0 else (first, second + count)
    return Contrast(found, tuple(lost.values()))


def half(cells: Sequence[survival.Cell]) -> Estimate | None:
    """alpha_50 with its interval; None without runs on both sides of it."""
    try:
        return survival.alpha_50(cells) if len(cells) > 1 else None
    except UserError:
        return None
