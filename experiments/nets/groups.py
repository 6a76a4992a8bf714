"""Rows by net, method and rate, and the comparisons that the criteria are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from experiments.common.statistics import Estimate, contrast
from experiments.nets.plan import ONE, STAR, Cell, Known, edge, pair, small, star
from experiments.nets.rows import Row
from experiments.nets.size import IMAGES, Size, Task

Group = tuple[Task, str, int]
"""A net, a method, and how many halvings its rate is below SSGD's edge."""


@dataclass(frozen=True)
class Contrast:
    """A mean over nets of differences of two methods, over the runs that survived."""

    estimate: Estimate
    lost: tuple[int, int]
    """Runs of the first and of the second method that did not survive."""
    is_fair: tuple[bool, bool]
    """Whether the first, and whether the second, lost no more than the other in any net."""


@dataclass(frozen=True)
class Measured:
    """The committed table, and the size of the study it is of."""

    size: Size
    rows: Sequence[Row]

    @cached_property
    def _by_name(self) -> dict[str, Row]:
        return {row.key: row for row in self.rows}

    @property
    def known(self) -> Known:
        """What came of each run."""
        return self._by_name.get

    def cell(self, group: Group) -> Cell | None:
        """Batch, rate and noise of a group; None before trials have chosen them."""
        task, arm, k = group
        place = {STAR: star, ONE: small}.get(arm, pair)
        found = [cell for cell in place(task, self.size, self.known) if cell.arm == arm]
        return found[k] if k < len(found) else None

    def at(self, group: Group) -> list[Row]:
        """Its judged runs so far, by seed."""
        cell = self.cell(group)
        names = [] if cell is None else [cell.key(seed) for seed in self.size.seeds]
        return [self._by_name[name] for name in names if name in self._by_name]

    def whole(self, group: Group) -> list[Row] | None:
        """`at`, or None while runs are missing."""
        found = self.at(group)
        return found if len(found) == len(self.size.seeds) else None

    def edge(self, task: Task) -> float | None:
        """The least rate at which SSGD failed on the tuning seed."""
        return edge(task, self.size, self.known)

    def counts(self, groups: Sequence[Group]) -> list[tuple[int, int]] | None:
        """How many of how many runs survived in each of them; None while runs are missing."""
        found = [self.whole(group) for group in groups]
        rows = [each for each in found if each is not None]
        if len(rows) < len(found):
            return None
        return [(sum(row.survived for row in each), len(each)) for each in rows]

    def gain(self, first: Sequence[Group], second: Sequence[Group]) -> Contrast | None:
        """Mean over pairs of groups of the difference of their measures; unpaired.

        None while runs are missing.

        Raises:
            UserError: fewer than two runs of a group survived.
        """
        groups = [self.whole(group) for group in (*first, *second)]
        if None in groups:
            return None
        rows = [group for group in groups if group is not None]
        kept = [[measure(row, first[0][0]) for row in each if row.survived] for each in rows]
        lost = [len(each) - len(alive) for each, alive in zip(rows, kept, strict=True)]
        pairs = list(zip(lost[: len(first)], lost[len(first) :], strict=True))
        weight = 1 / len(first)
        found = contrast(kept, [weight] * len(first) + [-weight] * len(second))
        return Contrast(
            found,
            (sum(a for a, _ in pairs), sum(b for _, b in pairs)),
            (all(a <= b for a, b in pairs), all(b <= a for a, b in pairs)),
        )


def measure(row: Row, task: Task) -> float:
    """What methods are compared by: points of test error, or nats of held-out loss."""
    return 100 * row.test_error if task.recipe == IMAGES else row.test_loss
