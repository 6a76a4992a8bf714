"""Phase diagrams: two settings of a sweep against verdict and error."""

import csv
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gossip.errors import UserError, suggestion
from gossip.report.axes import plain
from gossip.report.figures import STYLE
from gossip.report.runs import Run, as_written, heading, settings_that_differ, test_error
from gossip.storage.names import FINAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 60
"""Values of a setting, at most."""
HEAD = ("runs", "diverged", "test_error", "interrupted")
"""Columns of the CSV behind the two settings."""


@dataclass(frozen=True)
class Tally:
    """The runs at one place of a diagram."""

    runs: int
    """Those that came to their end."""
    diverged: int
    error: float
    """Mean test error of those that converged; NaN if none did."""
    interrupted: int
    """Those that did not come to their end, and say nothing."""


@dataclass(frozen=True)
class PhaseDiagram:
    """A diagram: a cell for each pair of values that runs have."""

    names: tuple[str, str]
    values: tuple[list[Any], list[Any]]
    """Of either setting: numbers ascending, texts in the order of the runs."""
    cells: dict[tuple[str, str], Tally]
    """By the texts of the values."""
    error: str
    """What the errors are."""
    title: str
    """What the runs have in common."""

    def cell(self, x: Any, y: Any) -> Tally | None:
        """Of two values; None where no run was."""
        return self.cells.get((str(x), str(y)))


def phase(runs: list[Run], x: str, y: str) -> PhaseDiagram:
    """The diagram of runs over two settings, as their config.toml or --help names them.

    Runs that share both, such as seeds, share a cell.

    Raises:
        UserError: the settings are the same, a run does not have one of them, or they have more
            values than `MOST`.
    """
    names = x.replace("-", "_"), y.replace("-", "_")
    if names[0] == names[1]:
        raise UserError(f"--phase {x} {y}: name two settings, those in which the runs differ")
    columns = [[run.setting(name) for run in runs] for name in names]
    for name, column in zip(names, columns, strict=True):
        if None in column:
            others = [other for other in settings_that_differ(runs) if other != name]
            raise UserError(
                f"run {runs[column.index(None)].folder} has no setting {name!r}"
                f"{suggestion(name, others)}; the runs differ in {', '.join(others) or 'none'}"
            )
    values = _ordered(columns[0]), _ordered(columns[1])
    for name, found in zip(names, values, strict=True):
        if len(found) > MOST:
            raise UserError(
                f"setting {name!r} has {len(found)} values, and a diagram room for {MOST}: name "
                "another, or fewer runs"
            )
    places: dict[tuple[str, str], list[Run]] = {}
    for a, b, run in zip(*columns, runs, strict=True):
        places.setdefault((str(a), str(b)), []).append(run)
    return PhaseDiagram(
        names,
        values,
        {place: _cell(group) for place, group in places.items()},
        test_error(runs),
        heading(runs),
    )


def as_csv(diagram: PhaseDiagram) -> str:
    """A line for each cell; a cell of the table is empty where there is no error."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*diagram.names, *HEAD])
    for x in diagram.values[0]:
        for y in diagram.values[1]:
            if (cell := diagram.cell(x, y)) is not None:
                error = "" if math.isnan(cell.error) else repr(cell.error)
                lines.writerow([x, y, cell.runs, cell.diverged, error, cell.interrupted])
    return text.getvalue()


def draw(diagram: PhaseDiagram) -> "Figure":
    """Two panels: the share of runs that diverged, and the mean error of those that did not.

    Each cell has its number as a text, too: `2/3` is two of three runs.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    columns, rows = map(len, diagram.values)
    with style.context(STYLE):
        size = (max(7.0, 2 * (1.5 + 0.75 * columns)), max(3.0, 1.8 + 0.4 * rows))
        figure = Figure(figsize=size, layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, diagram, "a  runs that diverged", _share, lambda c: f"{c.diverged}/{c.runs}")
        _panel(right, diagram, f"b  {diagram.error}", _error, lambda c: f"{c.error:.3g}")
        left.set_ylabel(diagram.names[1].replace("_", " "))
        if diagram.title:
            figure.suptitle(plain(diagram.title))
    return figure


def _panel(axes: "Axes", diagram: PhaseDiagram, title: str, number: Any, text: Any) -> None:
    xs, ys = diagram.values
    values = np.full((len(ys), len(xs)), np.nan)
    for j, x in enumerate(xs):
        for i, y in enumerate(ys):
            cell = diagram.cell(x, y)
            values[i, j] = math.nan if cell is None else number(cell)
    known = values[np.isfinite(values)]
    low, high = (0.0, 1.0) if number is _share else (min(known, default=0), max(known, default=1))
    axes.imshow(values, cmap="cividis", vmin=low, vmax=high, origin="lower", aspect="auto")
    for i, j in np.argwhere(np.isfinite(values)):
        ink = "white" if values[i, j] - low < 0.6 * (high - low) else "black"
        cell = diagram.cell(xs[j], ys[i])
        axes.text(j, i, text(cell), ha="center", va="center", color=ink, fontsize="small")
    axes.set_title(title)
    axes.set_xlabel(diagram.names[0].replace("_", " "))
    axes.set_xticks(range(len(xs)), [plain(as_written(x) or "none") for x in xs])
    axes.set_yticks(range(len(ys)), [plain(as_written(y) or "none") for y in ys])
    axes.grid(visible=False)
    if len(xs) > 1 and max(len(as_written(x)) for x in xs) > 6:
        axes.tick_params(axis="x", rotation=30)


def _share(cell: Tally) -> float:
    return cell.diverged / cell.runs if cell.runs else math.nan


def _error(cell: Tally) -> float:
    return cell.error


def _cell(runs: list[Run]) -> Tally:
    over = [run for run in runs if run.verdict in FINAL]
    errors = [run.number("test_error") for run in over if run.verdict != "diverged"]
    known = [error for error in errors if math.isfinite(error)]
    return Tally(
        len(over),
        sum(run.verdict == "diverged" for run in over),
        float(np.mean(known)) if known else math.nan,
        len(runs) - len(over),
    )


def _ordered(values: list[Any]) -> list[Any]:
    """Each value once."""
    once = list({str(value): value for value in values}.values())
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in once)
    return sorted(once) if numbers else once
