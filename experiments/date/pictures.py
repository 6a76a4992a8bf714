"""Figures of the DATE study, drawn from its committed table."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.common.figures import GREY, new_figure
from experiments.date.groups import Measured, elasticity, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def pictures(made: Measured) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure of what has runs to show."""
    if any(made.lipschitz().values()):
        yield "date_lipschitz.png", _lipschitz(made)
    if made.by_error():
        yield "date.png", _errors(made)


def _lipschitz(made: Measured) -> "Figure":
    """The epoch of the peak over the batch, and the line in proportion to it."""
    found = {b: [r for r in rows if r.peak_is_inside] for b, rows in made.lipschitz().items()}
    with new_figure(5.5, 4) as figure:
        axes = figure.subplots()
        pairs = [(b, row.peak_epoch) for b, rows in found.items() for row in rows]
        if pairs:
            axes.plot(*zip(*pairs, strict=True), "o", ms=4, alpha=0.6, label="a run")
            _line(axes, found)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("batch B")
        axes.set_ylabel("epoch of the peak of L(x, g)")
        axes.legend()
    return figure


def _line(axes: "Axes", found: dict) -> None:
    """Fitted power, if there are runs enough, and the first, through the middle of the runs."""
    logs = [(math.log(b), math.log(r.peak_epoch)) for b, rows in found.items() for r in rows]
    x, y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    batches = sorted(found)
    first = [math.exp(y + math.log(b) - x) for b in batches]
    axes.plot(batches, first, ":", color=GREY, label="in proportion to B")
    if len(logs) > 2 and sum(map(bool, found.values())) > 1:
        power = elasticity(found).value
        fitted = [math.exp(y + power * (math.log(b) - x)) for b in batches]
        axes.plot(batches, fitted, "-", color="C0", lw=1, label=f"B to the power {power:.2f}")


def _errors(made: Measured) -> "Figure":
    """Test errors of the judged runs, a line for each cell that is judged by them."""
    cells = made.by_error()
    with new_figure(8, 1 + 0.35 * len(cells)) as figure:
        axes = figure.subplots()
        for place, cell in enumerate(cells):
            errors = [points(row) for row in made.judged(cell)]
            axes.plot(errors, [place] * len(errors), "o", ms=4, alpha=0.6, color=f"C{place % 10}")
        labels = [f"{c.task}, {c.method}, B = {c.batch(made.size)}" for c in cells]
        axes.set_yticks(range(len(cells)), labels)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("test error at the end, %, a dot for each seed")
    return figure
