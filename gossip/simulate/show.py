"""The table, the CSV and the picture of an outlook."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from gossip.errors import UserError
from gossip.simulate.coupling import Coupled
from gossip.simulate.outlook import Line


def table(lines: Sequence[Line]) -> Table:
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


def write_csv(lines: Sequence[Line], path: Path) -> None:
    """All columns, in full.

    Raises:
        UserError: it cannot be written.
    """
    _write([f.name for f in fields(Line)], [asdict(line) for line in lines], path)


def draw(lines: Sequence[Line], title: str, path: Path) -> None:
    """Seconds a step and efficiency over the number of learners.

    Raises:
        UserError: it cannot be written, or is no picture.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    from gossip.report.figures import STYLE, save

    with style.context(STYLE):
        figure = Figure(figsize=(9, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name in dict.fromkeys(line.name for line in lines):
            points = [line for line in lines if line.name == name]
            n = [line.learners for line in points]
            left.plot(n, [line.seconds for line in points], marker="o", label=name)
            right.plot(n, [100 * line.efficiency for line in points], marker="o")
        left.set(xlabel="learners", ylabel="seconds per step", xscale="log", yscale="log")
        right.set(xlabel="learners", ylabel="efficiency in %", xscale="log")
        right.set_ylim(bottom=0)
        left.legend()
        figure.suptitle(title)
    save(figure, path)


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
            each.run.label,
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
        {"run": each.run.label, "step": int(step), "seconds": seconds, "bytes": sent}
        | {name: each.run.column(name)[k] for name in COLUMNS}
        for each in coupled
        for k, (step, seconds, sent) in enumerate(
            zip(each.run.column("step"), each.seconds, each.bytes, strict=True)
        )
    ]
    _write(["run", "step", "seconds", "bytes", *COLUMNS], rows, path)


def draw_coupled(coupled: Sequence[Coupled], title: str, path: Path) -> None:
    """Training loss and test error over simulated seconds.

    Raises:
        UserError: it cannot be written, or is no picture.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    from gossip.report.figures import STYLE, save

    with style.context(STYLE):
        figure = Figure(figsize=(9, 4), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, name in zip(panels, COLUMNS, strict=True):
            for each in coupled:
                values = each.run.column(name)
                there = np.isfinite(values)
                axes.plot(each.seconds[there], values[there], label=each.run.label)
            axes.set(xlabel="simulated seconds", ylabel=name.replace("_", " "))
        panels[0].legend()
        figure.suptitle(title)
    save(figure, path)


def _write(names: Sequence[str], rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
