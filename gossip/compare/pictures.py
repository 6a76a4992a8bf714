"""Figures of a comparison: the cost of a larger batch in accuracy, or R^2, and in data."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossip.compare.lines import Line, lines
from gossip.compare.methods import SINGLE, parse
from gossip.compare.metrics import evaluations, score
from gossip.compare.rows import Row
from gossip.report import Run
from gossip.report.figures import STYLE, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vPX"


def draw(rows: Sequence[Row], runs: Mapping[str, Run], folder: Path) -> list[Path]:
    """Draw accuracy.png (or r2.png), epochs_to_target.png and curves.png into `folder`.

    Args:
        rows: of `gossip.compare.rows`; those that were not chosen are left out.
        runs: finished runs by the name in `Row.run`.
        folder: which is there.

    Raises:
        UserError: a file cannot be written.
    """
    made = lines(rows)
    looks, called = _looks(made), score(runs.values())
    return [
        save(score_figure(made, looks, called), folder / f"{called.replace('^', '').lower()}.png"),
        save(epochs_figure(made, looks, called), folder / "epochs_to_target.png"),
        save(curves_figure(made, looks, runs), folder / "curves.png"),
    ]


def score_figure(made: Sequence[Line], looks: Mapping[str, dict], called: str) -> "Figure":
    """Accuracy, or what it is `called`, at fixed data over the total batch, ± a deviation."""
    with _new(7.2, 4.6) as figure:
        axes = figure.subplots()
        for method, look in looks.items():
            points = [line for line in made if line.cell.method == method]
            sums = [line.over_seeds("error") for line in points]
            axes.errorbar(
                [line.total_batch for line in points],
                [100 * (1 - s.mean) for s in sums],
                yerr=[0.0 if np.isnan(s.std) else 100 * s.std for s in sums],
                capsize=3,
                **look,
            )
            _level(axes, method, [100 * (1 - s.mean) for s in sums], look)
        axes.set_title(f"{called[0].upper()}{called[1:]} after the same number of samples")
        axes.set_ylabel(f"{called} in %, mean ± std over seeds")
        _batch_axis(axes, made)
    return figure


def epochs_figure(made: Sequence[Line], looks: Mapping[str, dict], called: str) -> "Figure":
    """Epochs to the target over the total batch; a gap where no run reached it."""
    with _new(7.2, 4.6) as figure:
        axes = figure.subplots()
        for method, look in looks.items():
            points = [line for line in made if line.cell.method == method]
            means = [line.over_seeds("epochs_to_target").mean for line in points]
            axes.plot([line.total_batch for line in points], means, **look)
            _level(axes, method, means, look)
        axes.set_title(f"Epochs to the target {called}")
        axes.set_ylabel("epochs, mean over the runs that reached it")
        axes.set_ylim(bottom=0)
        _batch_axis(axes, made)
    return figure


def curves_figure(
    made: Sequence[Line], looks: Mapping[str, dict], runs: Mapping[str, Run]
) -> "Figure":
    """Error over epochs, a panel for each number of learners: light seeds and their mean."""
    errors = " or ".join(dict.fromkeys(run.error for run in runs.values()))
    counts = sorted({line.cell.learners for line in made})
    columns = min(3, max(1, len(counts)))
    height = -(-max(1, len(counts)) // columns)
    with _new(4.2 * columns, 3.4 * height + 0.5) as figure:
        shape = {"nrows": height, "ncols": columns, "squeeze": False}
        panels = list(figure.subplots(**shape, sharex=True, sharey=True).flat)
        for axes, n in zip(panels, counts, strict=False):
            for line in (line for line in made if n == line.cell.learners or _is_single(line)):
                _curve(axes, [runs[row.run] for row in line.rows], looks[line.cell.method])
            axes.set_title(f"n = {n}")
            _error_axis(axes)
            axes.set_xlabel("epoch")
            axes.set_ylabel(f"{errors} in %")
        for axes in panels[len(counts) :]:
            axes.remove()
        handles = _handles(looks)
        figure.legend(handles=handles, loc="outside upper left", ncols=max(1, min(4, len(handles))))
    return figure


def _curve(axes: "Axes", runs: Sequence[Run], look: dict) -> None:
    color = look["color"]
    found = [
        (e.epochs, np.where(e.errors > 0, 100 * e.errors, np.nan)) for e in map(evaluations, runs)
    ]
    for epochs, errors in found:
        axes.plot(epochs, errors, color=color, lw=0.7, alpha=0.4)
    found = [(epochs, errors) for epochs, errors in found if len(epochs)]
    if found:
        grid, _ = max(found, key=lambda curve: curve[0][-1])
        # The mean goes as far as all runs do: of those that are left it would jump.
        curves = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in found])
        axes.plot(grid, curves.mean(axis=0), color=color, lw=2)


def _looks(made: Sequence[Line]) -> dict[str, dict]:
    """How each method is drawn, the same in all pictures."""
    names = list(dict.fromkeys(line.cell.method for line in made))
    return {
        name: {
            "label": name.replace("$", r"\$"),
            "color": f"C{i % 7}",
            "marker": _MARKERS[i % len(_MARKERS)],
            "ls": "-" if i < 7 else "--",
        }
        for i, name in enumerate(names)
    }


def _is_single(line: Line) -> bool:
    return parse(line.cell.method).name == SINGLE


def _level(axes: "Axes", method: str, values: Sequence[float], look: dict) -> None:
    """A line across the picture at what the single worker has: it has no larger batch."""
    if parse(method).name == SINGLE and np.isfinite(values[0]):
        axes.axhline(values[0], color=look["color"], ls=":", lw=1)


def _error_axis(axes: "Axes") -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _batch_axis(axes: "Axes", made: Sequence[Line]) -> None:
    batches = sorted({line.total_batch for line in made})
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.minorticks_off()
    axes.set_xlim(batches[0] / 1.2, batches[-1] * 1.2)
    axes.set_xlabel("total batch nB")
    if axes.has_data():
        axes.legend(loc="best")


def _handles(looks: Mapping[str, dict]) -> list:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=look["color"], label=look["label"]) for look in looks.values()]


@contextmanager
def _new(width: float, height: float) -> Generator["Figure"]:
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")
