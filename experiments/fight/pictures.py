"""Figures of the study, drawn from its committed table."""

import math
from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import new_figure
from experiments.common.statistics import share
from experiments.common.survival import both_sides, fit
from experiments.fight.groups import Measured
from experiments.fight.methods import METHODS
from experiments.fight.page import title
from experiments.fight.plan import EDGE, FIGHT, chosen, key, tried
from experiments.fight.size import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TICKS = (2, 3, 5, 10, 20, 50, 90)
"""Of the axes of error, in %."""


def pictures(made: Measured) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure, if there is something to show."""
    if made.count(EDGE):
        yield "fight_edge.png", _survival(made)
    if made.count(FIGHT):
        yield "fight.png", _errors(made)


def _survival(made: Measured) -> "Figure":
    """Share of runs that survive each rate, with Wilson's intervals and logistic curves."""
    with new_figure(8, 3.6) as figure:
        axes = figure.subplots()
        for place, (name, method) in enumerate(METHODS.items()):
            cells = made.edge(name)
            if not cells:
                continue
            alphas = np.array([cell.alpha for cell in cells])
            found = [share(cell.survived, cell.runs) for cell in cells]
            sides = [[f.value - f.low for f in found], [f.high - f.value for f in found]]
            axes.errorbar(
                alphas + 0.012 * (place - len(METHODS) // 2),
                [f.value for f in found],
                yerr=sides,
                fmt="o",
                ms=4,
                lw=1,
                color=f"C{place}",
                label=method.label,
            )
            if len(cells) > 1 and both_sides(cells):
                fine = np.linspace(alphas.min(), alphas.max(), 200)
                axes.plot(fine, fit(cells).at(fine), color=f"C{place}")
        axes.set_xlabel("learning rate α")
        axes.set_ylabel("share of runs that survive, 95 %")
        axes.legend()
    return figure


def _errors(made: Measured) -> "Figure":
    """Validation error of the trials over the rate, and the test error of the judged runs."""
    cells = made.size.cells
    columns = math.ceil(len(cells) / 2)
    with new_figure(4.2 * columns, 6.5) as figure:
        grid = figure.subplots(2, columns, sharey=True, squeeze=False)
        for axes, cell in zip(grid.flat, cells, strict=False):
            _panel(axes, made, cell)
        for row in grid:
            row[0].set_ylabel("error at the end, %")
        handles = [
            grid[0, 0].plot([], [], "o-", color=f"C{place}", label=method.label)[0]
            for place, method in enumerate(METHODS.values())
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _panel(axes: "Axes", made: Measured, cell: Cell) -> None:
    """Lines: trials of one seed. Dots: mean over the judged runs that survived."""
    for place, name in enumerate(METHODS):
        rates = tried(cell, name, made.size, made.error)
        errors = [made.error(key(cell, name, a, made.size.tuning_seed)) for a in rates]
        known = [
            (a, 100 * e)
            for a, e in zip(rates, errors, strict=True)
            if e is not None and math.isfinite(e)
        ]
        if known:
            axes.plot(*zip(*known, strict=True), lw=1, color=f"C{place}")
        kept = [100 * row.test_error for row in made.tuned(cell, name) if row.survived]
        best = chosen(cell, name, made.size, made.error)
        if kept and best is not None:
            axes.plot([best], [fmean(kept)], "o", color=f"C{place}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_yticks(TICKS, [str(tick) for tick in TICKS])
    axes.minorticks_off()
    axes.set_xlabel("learning rate α")
    axes.set_title(title(cell))
