"""Every simulated number is a row of one committed table."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.common import tables
from experiments.common.scale import Scale
from experiments.time.size import SIMULATED

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number, beside what it is compared with."""

    part: str
    """One of `experiments.time.plan.PARTS`."""
    table: str
    """Which table of the part."""
    name: str
    how: str = ""
    n: int = 0
    """Learners or workers."""
    bandwidth: float = NAN
    """Of the network, bits per second."""
    latency: float = NAN
    """Seconds, one way."""
    value: float
    """Ours."""
    reference: float = NAN
    """Published, measured, or the closed form."""

    @property
    def error(self) -> float:
        """Ours over the reference, minus 1."""
        return self.value / self.reference - 1


def read(scale: Scale) -> list[Row]:
    """The rows of the table; none if there is none."""
    return [
        Row(
            part=cells["part"],
            table=cells["table"],
            name=cells["name"],
            how=cells["how"],
            n=int(cells["n"]),
            **{
                name: float(cells[name] or "nan")
                for name in ("bandwidth", "latency", "value", "reference")
            },
        )
        for cells in tables.read(path(scale))
    ]


def write(rows: Iterable[Row], scale: Scale) -> None:
    """Write the table anew, with digits enough to tell an exact result from a near one."""
    tables.write([asdict(row) | _digits(row) for row in rows], path(scale))


def _digits(row: Row) -> dict[str, str]:
    numbers = {"value": row.value, "reference": row.reference}
    return {k: "" if math.isnan(v) else f"{v:.13g}" for k, v in numbers.items()}


def path(scale: Scale) -> Path:
    """The table's file."""
    return scale.results / SIMULATED


def of(rows: Sequence[Row], table: str, **more: object) -> list[Row]:
    """The rows of a table, and of those the ones with these cells."""
    return [
        row
        for row in rows
        if row.table == table and all(getattr(row, key) == value for key, value in more.items())
    ]


def worst(rows: Sequence[Row]) -> Row:
    """The one furthest from its reference."""
    return max(rows, key=lambda row: abs(row.error))
