"""The figure of the tuned tables, drawn from their committed table."""

import math
from typing import TYPE_CHECKING

from experiments.common.figures import new_figure
from experiments.lena.tuned.groups import Measured, points
from experiments.lena.tuned.plan import METHODS, SINGLE_WORKER, Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE = "lena_tuned.png"
TICKS = (8, 9, 10, 12, 14, 16, 20, 30, 50, 90)
"""Errors in %."""
RATES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)


def tuned(made: Measured) -> "Figure":
    """Errors over the base rate after scaling: trials as lines, judged runs as dots."""
    with new_figure(4.6 * len(made.size.learners), 4.2) as figure:
        panels = figure.subplots(
            1, len(made.size.learners), sharex=True, sharey=True, squeeze=False
        )
        for axes, n in zip(panels[0], made.size.learners, strict=True):
            for place, name in enumerate(METHODS):
                _method(axes, made, Cell(name, 1 if name == SINGLE_WORKER else n), f"C{place}")
            axes.set_xscale("log")
            axes.set_xticks(RATES, [f"{rate:g}" for rate in RATES])
            axes.set_yscale("log")
            axes.set_yticks(TICKS, [str(tick) for tick in TICKS])
            axes.set_ylim(TICKS[0], TICKS[-1])
            axes.minorticks_off()
            axes.set_title(f"n = {n}")
            axes.set_xlabel("base rate, of LSW times n")
        panels[0, 0].set_ylabel("error at the end, %")
        handles = [
            panels[0, 0].plot([], [], "o-", color=f"C{place}", label=method.label)[0]
            for place, method in enumerate(METHODS.values())
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _method(axes: "Axes", made: Measured, cell: Cell, color: str) -> None:
    factor = cell.n if METHODS[cell.method].is_linear else 1
    error, lr = made.error(cell), made.chosen(cell)
    known = [(rate, error(rate)) for rate in made.tried(cell)]
    there = [(factor * rate, 100 * e) for rate, e in known if e is not None and math.isfinite(e)]
    if there:
        axes.plot(*zip(*there, strict=True), ".-", ms=3, lw=1, color=color)
    judged = [points(row) for row in made.judged(cell)]
    if judged and lr is not None:
        axes.plot([factor * lr] * len(judged), judged, "o", ms=4, alpha=0.6, color=color)
