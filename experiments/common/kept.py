"""A run is made once: where its folder is gone, its committed row stands for it.

A study takes more hours than a machine may last, and its tables are committed as they grow. To make
a run again, delete its row and its folder. A row is known by its name; one of other steps than the
plan has now is of an older plan, is not used, and goes when the table is written. Whoever changes
anything else that is not in a run's name deletes the rows himself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from gossip.config import Config


class Kept(Protocol):
    """A row of a run."""

    @property
    def key(self) -> str:
        """Its name."""
        ...

    @property
    def verdict(self) -> str:
        """How it ended."""
        ...

    @property
    def steps(self) -> int | None:
        """Steps that it took; None: the table was written before it had the column."""
        ...


Row = TypeVar("Row", bound=Kept)


def of_plan(rows: Iterable[Row], steps: Callable[[Row], int]) -> list[Row]:
    """The rows that took the steps of the plan, or fewer if they diverged."""
    return [row for row in rows if _fits(row, steps(row))]


def _fits(row: Kept, planned: int) -> bool:
    if row.steps is None:
        return True
    return row.steps == planned or (row.verdict == "diverged" and row.steps < planned)


def missing(wanted: Mapping[str, Config], rows: Iterable[Kept]) -> dict[str, Config]:
    """The runs that none of the rows is of."""
    there = {row.key for row in rows}
    return {key: config for key, config in wanted.items() if key not in there}


def merged(made: Iterable[Row], kept: Iterable[Row], order: Sequence[str]) -> list[Row]:
    """A row for each name in `order` that has one, of a run made here before a kept one.

    Kept rows of other names follow in their order, so that nothing measured is lost: where a trial
    is to be made again, the runs at the rate it chose have no place in the plan for a while.
    """
    before = {row.key: row for row in kept}
    found = before | {row.key: row for row in made}
    others = before.keys() - set(order)
    return [found[key] for key in order if key in found] + [
        row for key, row in before.items() if key in others
    ]
