"""The report prints the results of the parts as tables, and gives the exit code."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.bench import rows
from experiments.bench import show as bench
from experiments.common import tables
from experiments.gpu_check.parts import Part
from experiments.gpu_check.running import LEFT_OUT, Ended

OK, FAILED, NOT_RUN = "ok", "FAILED", "not run"
TITLES = {
    "overlap": "How much of the exchange is hidden",
    "stacked": "All learners in one process",
    "switches": "Precision, memory format, CUDA graphs",
    "compiled": "torch.compile",
}


@dataclass(frozen=True)
class Outcome:
    """The result of a part."""

    part: str
    result: str
    seconds: float
    notes: list[str] = field(default_factory=list)


def judged(part: Part, ended: Ended, out: Path, notes: list[str]) -> Outcome:
    """The outcome of a part, by its exit code and, for equalities, by its file."""
    said = [*notes, *(f"{LEFT_OUT}{text}" for text in ended.left_out)]
    wrong = unequal(part.file(out)) if part.module == "equality" else []
    said += [f"{len(wrong)} equalities do not hold, the first: {wrong[0]}"] if wrong else []
    if ended.code != 0:
        said.append(ended.reason)
    return Outcome(part.name, FAILED if wrong else result(ended), round(ended.seconds, 1), said)


def result(ended: Ended) -> str:
    """OK, NOT_RUN where a part says that it cannot be run here, else FAILED."""
    return OK if ended.code == 0 else NOT_RUN if ended.cannot else FAILED


def unequal(file: Path) -> list[str]:
    """The cases of an equality battery that do not hold."""
    return [_called(row) for row in tables.read(file) if row["holds"] != "True"]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """1 if an equality does not hold, or a part has failed or hung; else 0."""
    return int(any(outcome.result == FAILED for outcome in outcomes))


def show(outcomes: Sequence[Outcome], parts: Sequence[Part], out: Path) -> None:
    """Print all tables, those of the parts in the order in which they ran."""
    console = Console(width=140)
    for part in parts:
        if part.module == "equality":
            found = tables.read(part.file(out))
            if found:
                console.print(equalities(part.name, found))
        elif found := rows.read(part.file(out)):
            console.print(bench.table(TITLES[part.module], found))
    console.print(_summary(outcomes))


def equalities(name: str, found: Sequence[dict[str, str]]) -> Table:
    """A line per kind of case, with its worst difference."""
    first = found[0]
    title = f"{name}: {first['processes']} processes, {first['backend']}, {first['device']}"
    shown = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("", "cases", "hold", "largest difference", "allowed"):
        shown.add_column(heading, no_wrap=True)
    for kind, part in groupby(sorted(found, key=_kind), key=_kind):
        group = list(part)
        worst = max(group, key=_badness)["difference"]
        hold = sum(row["holds"] == "True" for row in group)
        numbers = str(len(group)), str(hold), f"{float(worst):.2g}", group[0]["tolerance"]
        shown.add_row(" ".join(kind), *numbers)
    return shown


def _summary(outcomes: Sequence[Outcome]) -> Table:
    shown = Table(title="Parts", title_justify="left", title_style="bold")
    for heading in ("part", "result", "seconds", ""):
        shown.add_column(heading, overflow="fold")
    for one in outcomes:
        shown.add_row(one.part, one.result, f"{one.seconds:.0f}", escape("\n".join(one.notes)))
    return shown


def _kind(row: dict[str, str]) -> tuple[str, ...]:
    overlap = "overlapping" if row["overlap"] == "True" else "in turn"
    graphs = "CUDA graphs" if row["graphs"] == "True" else ""
    each = f"{row['each']} a learner, {row['split']}" if row["each"] != "0" else ""
    return row["what"], row["algorithm"], row["order"], row["dtype"], overlap, graphs, each


def _badness(row: dict[str, str]) -> tuple[bool, float]:
    """NaN, which no number is larger than, is the worst."""
    difference = float(row["difference"])
    return math.isnan(difference), difference


def _called(row: dict[str, str]) -> str:
    return f"{' '.join(_kind(row))} {row['topology']}, difference {row['difference']}"
