"""Each measurement is one row, of the CSV and on the terminal."""

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from experiments.bench.measure import Times, summary
from experiments.common import tables

NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The settings that the variants of one comparison have in common."""

    table: str
    case: str
    """Description of the case."""
    processes: int = 1
    learners: int = 1
    d: int = 0
    """Parameters of a learner."""
    batch: int = 0
    """Samples per learner and step; 0 where no gradient is taken."""


@dataclass(frozen=True, kw_only=True)
class Row(Case):
    """One variant in one case; empty in the CSV where a value is NaN."""

    variant: str
    base: str
    """The variant that `ratio` refers to."""
    topology: str = "-"
    rounds: int = 0
    steps: int = 0
    """Steps averaged in each round."""
    wall_ms: float = NAN
    """Per step, the slowest process's; median over the rounds, and its quartiles."""
    wall_ms_q1: float = NAN
    wall_ms_q3: float = NAN
    cpu_ms: float = NAN
    """Per step and process, all threads; busy waiting counts."""
    ratio: float = NAN
    learner_steps_per_s: float = NAN
    """Steps of all learners together per second."""
    bytes_per_learner: float = NAN
    """Sent per step by the algorithm's formula, see `gossip.comm.base.Traffic`."""
    hidden: float = NAN
    """Share of the exchange that costs no time."""
    peak_mib: float = NAN
    """Largest resident memory of the process."""


COLUMNS = tuple(field.name for field in fields(Row))


@dataclass(frozen=True)
class Label:
    """The cells of a variant's row besides its times."""

    variant: str
    topology: str = "-"
    bytes_per_learner: float = NAN


def rows_of(
    case: Case, times: Mapping[str, Times], base: str, labels: Mapping[str, Label] | None = None
) -> list[Row]:
    """A row for each variant of a case.

    Args:
        case: what they have in common.
        times: by key.
        base: key of the one that the others are divided by.
        labels: by key, where a key is not what a variant is called.
    """
    labels = labels or {}
    return [_row(case, labels.get(key, Label(key)), times[key], times[base], base) for key in times]


def _row(case: Case, label: Label, times: Times, base: Times, base_name: str) -> Row:
    got = summary(times, base)
    return Row(
        **asdict(case),
        **asdict(label),
        base=base_name,
        rounds=len(times.wall),
        steps=times.steps,
        wall_ms=got.wall,
        wall_ms_q1=got.first_quartile,
        wall_ms_q3=got.third_quartile,
        cpu_ms=got.cpu,
        ratio=got.ratio,
        learner_steps_per_s=1e3 * case.learners / got.wall,
    )


def append(rows: list[Row], path: Path) -> None:
    """Add rows to a CSV file, with its header if it is new: an interrupted run keeps its rows."""
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows:
            writer.writerow({name: tables.cell(value) for name, value in asdict(row).items()})


def read(path: Path) -> list[Row]:
    """The rows of a CSV file; none if there is no file."""
    kinds: dict[str, Any] = {field.name: field.type for field in fields(Row)}
    return [
        Row(**{name: _value(kind, cells[name]) for name, kind in kinds.items()})
        for cells in tables.read(path)
    ]


def _value(kind: type, text: str) -> Any:
    return NAN if kind is float and not text else kind(text)
