"""The table, the CSV and the picture of an outlook."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich import box
from rich.table import Table

from gossip.errors import UserError
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
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [f.name for f in fields(Line)])
            writer.writeheader()
            writer.writerows(asdict(line) for line in lines)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


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
