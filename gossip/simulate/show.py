"""The table, the CSV and the picture of an outlook."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.table import Table

from gossip.errors import UserError
from gossip.report.runs import test_error
from gossip.simulate.coupling import Coupled
from gossip.simulate.outlook import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MARKS = "os^Dvp*X"
"""Of the ways of averaging in a picture."""


def table(lines: Sequence[Forecast]) -> Table:
    """For the terminal."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("n", "algorithm", "by"):
        made.add_column(name, justify="right" if name == "n" else "left")
    for name in ("s/step", "speed-up", "efficiency", "idle", "MB/step", "messages"):
        made.add_column(name, justify="right", no_wrap=True)
    for k, line in enumerate(lines):
        ends = k + 1 == len(lines) or lines[k + 1].learners != line.learners
        made.add_row(
            str(line.learners),
            line.algorithm,
            line.how,
            f"{line.seconds:.4g}",
            f"{line.speedup:.4g}",
            f"{line.efficiency:.1%}",
            f"{line.idle:.1%}",
            f"{line.bytes / 1e6:.4g}",
            f"{line.messages:.4g}",
            end_section=ends,
        )
    return made


def write_csv(lines: Sequence[Forecast], path: Path) -> None:
    """All columns, in full.

    Raises:
        UserError: it cannot be written.
    """
    write_rows([f.name for f in fields(Forecast)], [asdict(line) for line in lines], path)


def draw(lines: Sequence[Forecast], title: str, path: Path) -> None:
    """Seconds a step and efficiency over the number of learners; bars if there is one number.

    Raises:
        UserError: it cannot be written, or is no picture.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    from gossip.report.figures import STYLE, save

    learners = sorted({line.learners for line in lines})
    with style.context(STYLE):
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        if len(learners) == 1:
            _bars(lines, left, right)
        else:
            _curves(lines, left, right)
            figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
            for axes in (left, right):
                axes.set_xticks(learners, [str(n) for n in learners])
                axes.minorticks_off()
        figure.suptitle(title, fontsize="medium", wrap=True)
    save(figure, path)


def _curves(lines: Sequence[Forecast], left: "Axes", right: "Axes") -> None:
    """A colour for each algorithm, a mark for each way of averaging."""
    algorithms = list(dict.fromkeys(line.algorithm for line in lines))
    ways = list(dict.fromkeys(line.how for line in lines))
    for name in dict.fromkeys(line.name for line in lines):
        points = [line for line in lines if line.name == name]
        look = {
            "color": f"C{algorithms.index(points[0].algorithm)}",
            "marker": MARKS[ways.index(points[0].how) % len(MARKS)],
            "label": name,
        }
        n = [line.learners for line in points]
        left.plot(n, [line.seconds for line in points], **look)
        right.plot(n, [100 * line.efficiency for line in points], **look)
    left.set(xlabel="learners", ylabel="seconds per step", xscale="log")
    right.set(xlabel="learners", ylabel="efficiency in %", xscale="log")
    left.set_ylim(bottom=0)
    right.set_ylim(bottom=0)


def _bars(lines: Sequence[Forecast], left: "Axes", right: "Axes") -> None:
    """One bar for each choice, the first on top."""
    names = [line.name for line in lines]
    left.barh(names, [line.seconds for line in lines])
    right.barh(names, [100 * line.efficiency for line in lines], color="C1")
    left.set(xlabel="seconds per step")
    right.set(xlabel="efficiency in %")
    right.set_yticks([])
    for axes in (left, right):
        axes.invert_yaxis()


def coupled_table(coupled: Sequence[Coupled], target: float) -> Table:
    """For the terminal."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    made.add_column("run")
    names = ("s/gradient", "s/step", "seconds", "MB sent", "error", "s to target", "MB to target")
    for name in names:
        made.add_column(name, justify="right", no_wrap=True)
    for each in coupled:
        seconds, sent = each.to(target)
        errors = each.run.column("test_error")
        final = errors[np.isfinite(errors)][-1:]
        made.add_row(
            each.name,
            f"{each.gradient:.4g}",
            f"{each.seconds[-1] / each.steps:.4g}",
            f"{each.seconds[-1]:.4g}",
            f"{each.bytes[-1] / 1e6:.4g}",
            f"{final[0]:.2%}" if len(final) else "",
            f"{seconds:.4g}",
            f"{sent / 1e6:.4g}",
        )
    return made


COLUMNS = ("train_loss", "test_error")
"""Columns of a trace that are shown over simulated seconds."""


def write_coupled(coupled: Sequence[Coupled], path: Path) -> None:
    """The rows of all traces with their seconds and bytes.

    Raises:
        UserError: it cannot be written.
    """
    rows = [
        {"run": each.name, "step": int(step), "seconds": seconds, "bytes": sent}
        | {name: each.run.column(name)[k] for name in COLUMNS}
        for each in coupled
        for k, (step, seconds, sent) in enumerate(
            zip(each.run.column("step"), each.seconds, each.bytes, strict=True)
        )
    ]
    write_rows(["run", "step", "seconds", "bytes", *COLUMNS], rows, path)


def draw_coupled(coupled: Sequence[Coupled], title: str, path: Path) -> None:
    """Training loss and test error over simulated seconds.

    Raises:
        UserError: it cannot be written, or is no picture.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    from gossip.report.figures import STYLE, save

    error = test_error([each.run for each in coupled])
    names = dict(zip(COLUMNS, ("train loss", error), strict=True))
    with style.context(STYLE):
        figure = Figure(figsize=(9, 4), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, name in zip(panels, COLUMNS, strict=True):
            for each in coupled:
                values = each.run.column(name)
                there = np.isfinite(values)
                axes.plot(each.seconds[there], values[there], label=each.name)
            axes.set(xlabel="simulated seconds", ylabel=names[name])
        panels[0].legend()
        figure.suptitle(title)
    save(figure, path)


def write_rows(names: Sequence[str], rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A table with these columns.

    Raises:
        UserError: it cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
