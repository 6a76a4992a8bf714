"""Figure of the study, drawn from its committed table."""

from typing import TYPE_CHECKING

from experiments.common.figures import GREY, new_figure
from experiments.flatness.groups import Measured
from experiments.flatness.plan import ARMS, SSGD
from experiments.flatness.size import Cell

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
