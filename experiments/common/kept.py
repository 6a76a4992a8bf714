"""A run is made once: where its folder is gone, its committed row stands for it.

A study takes more hours than a machine may last, and its tables are committed as they grow. To make
a run again, delete its row and its folder.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from experiments.common import tables
from gossip.config import Config


class Keyed(Protocol):
    """A row that has the name of its run."""

    @property
    def key(self) -> str:
        """The name."""
        ...


Row = TypeVar("Row", bound=Keyed)


def keys(table: Path) -> set[str]:
    """The names of the runs that a table has rows of; none if there is no file."""
    return {row["key"] for row in tables.read(table)}


def missing(wanted: Mapping[str, Config], table: Path) -> dict[str, Config]:
    """The runs that a table has no row of."""
    there = keys(table)
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
