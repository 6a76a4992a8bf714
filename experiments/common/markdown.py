"""Pages are Markdown written from the committed tables: cells, tables and fixed sentences."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Protocol

SMOKE = "**Smoke test of the code, not results.**\n"
"""First line of a page whose numbers mean nothing."""


class Judged(Protocol):
    """A run's row that says whether the run is lost: without a model."""

    @property
    def lost(self) -> bool:
        """Diverged, or ended with less than half of its best accuracy."""
        ...


class Made(Protocol):
    """A run's row that says how it was made."""

    @property
    def versions(self) -> str:
        """Libraries it was run with; empty if unknown."""
        ...

    @property
    def seconds(self) -> float:
        """Wall time on one thread."""
        ...


def page(parts: Iterable[str], *, is_smoke: bool) -> str:
    """A page of the parts that have something to say, a blank line between."""
    return "\n".join(part for part in (SMOKE if is_smoke else "", *parts) if part)


def not_run_yet(lines: Sequence[str]) -> str:
    """The section that lists missing runs; empty if none is missing."""
    if not lines:
        return ""
    return "**Not run yet**, so missing below:\n\n" + "".join(f"- {line}\n" for line in lines)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with a heading for each column."""
    return "".join(map(table_row, (head, ["---"] * len(head), *lines)))


def table_row(cells: Sequence[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |\n"


def mean(values: Iterable[float], form: str = ".2f") -> str:
    """Mean ± standard deviation of the finite values; - if there is none."""
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return "-"
    spread = f" ± {stdev(values):{form}}" if len(values) > 1 else ""
    return f"{fmean(values):{form}}{spread}"


def percent(rows: Sequence[Judged], name: str = "best_error") -> str:
    """Mean ± standard deviation of an error in %, lost runs counted and not averaged; - if none.

    Args:
        rows: runs that differ by their seed alone.
        name: attribute of the rows, an error as a share of 1.
    """
    kept = [100 * getattr(row, name) for row in rows if not row.lost]
    kept = [value for value in kept if math.isfinite(value)]
    lost = sum(row.lost for row in rows)
    text = mean(kept) if kept else ("" if lost else "-")
    return f"{text} ({lost} of {len(rows)} lost)".strip() if lost else text


def provenance(rows: Iterable[Made]) -> str:
    """How many runs there are, how long they took, and the versions they were made with."""
    rows = list(rows)
    versions = "; ".join(sorted({row.versions for row in rows if row.versions}))
    minutes = sum(row.seconds for row in rows if math.isfinite(row.seconds)) / 60
    return f"{len(rows)} runs, {minutes:.0f} core minutes, with {versions or 'nothing yet'}.\n"
