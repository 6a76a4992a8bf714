"""Figures of the study, drawn from its committed tables."""

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.common.figures import GREY, new_figure
from experiments.flatness.contours import Contours
from experiments.flatness.groups import Measured
from experiments.flatness.plan import ARMS, SHOWN, SSGD, shown_key
from experiments.flatness.size import Cell, Size
from gossip.landscape.planes import RANDOM, THROUGH, UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "lambda_max": "λ_max",
    "trace": "trace",
    "random": "random steps",
    "ascent": "up the gradient",
    "test_loss": "test loss",
}
"""What is drawn."""
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2)
"""Ticks of the ratios: on an axis of less than a decade those of powers of ten are not enough."""


def flatness(made: Measured) -> "Figure":
    """DPSGD over SSGD at equal training loss, with its interval: an axes for each number."""
    with new_figure(2.5 * len(NAMES) + 1.0, 3.7) as figure:
        row = figure.subplots(1, len(NAMES), sharex=True)
        for axes, (name, label) in zip(row, NAMES.items(), strict=True):
            for place, arm in enumerate(arm for arm in ARMS if arm != SSGD):
                for cell, marker in zip(made.size.cells, "o^", strict=True):
                    _ratios(axes, made, cell, arm, name, f"C{place}", marker)
            axes.axhline(1, color=GREY, lw=0.8)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(1.4 * made.size.levels[0], made.size.levels[-1] / 1.4)
            axes.set_xticks(made.size.levels, [f"{level:g}" for level in made.size.levels])
            low, high = axes.get_ylim()
            ticks = [ratio for ratio in RATIOS if low <= ratio <= high]
            axes.set_yticks(ticks, [f"{ratio:g}" for ratio in ticks])
            axes.minorticks_off()
            axes.set_title(f"{label}, over SSGD's", fontsize="medium")
            axes.set_xlabel("training loss")
        figure.legend(*row[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _ratios(
    axes: "Axes", made: Measured, cell: Cell, arm: str, name: str, color: str, marker: str
) -> None:
    """Ratios at all levels, the two rates and the arms a little aside of each other."""
    found = {
        level: made.ratio((cell, arm), (cell, SSGD), level, name).estimate
        for level in made.size.levels
    }
    there = {level: estimate for level, estimate in found.items() if estimate is not None}
    aside = {"o": 1.04, "^": 0.96}[marker] * (1.02 if color == "C0" else 0.98)
    axes.errorbar(
        [level * aside for level in there],
        [estimate.value for estimate in there.values()],
        yerr=[
            [estimate.value - estimate.low for estimate in there.values()],
            [estimate.high - estimate.value for estimate in there.values()],
        ],
        fmt=marker,
        color=color,
        capsize=3,
        ms=4,
        label=f"{ARMS[arm].label}, α = {cell.alpha:g}",
    )


LINES = 2.0 ** np.arange(-2, 5, 0.5)
"""Levels of the loss that a line is drawn at, over the level that the runs are shown at."""


def contours(found: Contours, size: Size) -> "Figure":
    """A row for each rate, a column for each plane; all lines are at the same levels."""
    columns = [(arm, RANDOM) for arm in SHOWN] + [(SHOWN[-1], THROUGH)]
    with new_figure(4.2 * len(columns), 4.2 * len(size.cells)) as figure:
        panels = figure.subplots(len(size.cells), len(columns), squeeze=False)
        for row, cell in zip(panels, size.cells, strict=True):
            for axes, (arm, kind) in zip(row, columns, strict=True):
                of_run = found.get(shown_key(cell, arm), {}).get("contours", {})
                if kind in of_run:
                    _contour(axes, kind, of_run[kind], size.shown_level)
                else:
                    axes.text(0.5, 0.5, "not there", ha="center", transform=axes.transAxes)
                axes.set_title(f"{ARMS[arm].label}, α = {cell.alpha:g}", fontsize="medium")
        handles, labels = panels[0][-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _contour(axes: "Axes", kind: str, contour: dict[str, Any], level: float) -> None:
    axis, levels = contour["axis"], level * LINES
    loss = np.array(contour["loss"], dtype=float)  # null, what is not finite, becomes NaN
    drawn = axes.contour(axis, axis, loss, levels=levels, cmap="viridis", linewidths=0.9)
    axes.clabel(drawn, levels[::2], fontsize="x-small", fmt="%.3g")
    if kind == THROUGH:
        places = np.array(contour["learners"]).T
        axes.plot(*places, "o", color="C3", ms=5, mfc="white", label="learners")
    axes.plot(0, 0, "+", color="black", ms=8, label="their mean")
    axes.set_xlabel(f"{kind}, {UNITS[kind]}")
    axes.set_aspect("equal")
