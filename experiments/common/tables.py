"""Committed tables are CSV files: one row per run, an empty cell where nothing was measured."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gossip.report import Run
from gossip.storage.folder import replacing

SHOWN = ("gossip", "torch", "numpy", "python")
"""Libraries whose versions go into a row."""

Kind = TypeVar("Kind")


def write(tables: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows that all have the same columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(tables[0]), lineterminator="\n")
        writer.writeheader()
        for table in tables:
            writer.writerow({name: cell(value) for name, value in table.items()})


def read(path: Path) -> list[dict[str, str]]:
    """The rows, as text; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def typed(path: Path, kind: type[Kind]) -> list[Kind]:
    """The rows as objects of a dataclass whose fields are the columns; none if there is no file."""
    return [msgspec.convert(filled(table), kind, strict=False) for table in read(path)]


def filled(table: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row that are not empty; the defaults stand for the others."""
    return {name: value for name, value in table.items() if value}


def versions(run: Run) -> str:
    """The versions of the libraries that a run was made with."""
    found = run.summary.get("versions", {})
    return ", ".join(f"{name} {found[name]}" for name in SHOWN if name in found)


def cell(value: Any) -> Any:
    """The value as it is written: six digits, an empty cell for NaN."""
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.6g}"
