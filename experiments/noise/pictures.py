"""Figure of the study, drawn from its committed table."""

from typing import TYPE_CHECKING

from experiments.common.figures import new_figure
from experiments.noise.arms import ARMS
from experiments.noise.groups import Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def survival(cells: list[Measured]) -> "Figure":
    """Share of the runs that survive, with its interval: a line an arm, an axes a cell."""
    with new_figure(4.2 * len(cells) + 1.6, 1.0 + 0.34 * len(ARMS)) as figure:
        row = figure.subplots(1, len(cells), sharey=True, squeeze=False)[0]
        for axes, made in zip(row, cells, strict=True):
            for place, name in enumerate(ARMS):
                found = made.survival(name)
                if found is None:
                    continue
                sides = [[found.value - found.low], [found.high - found.value]]
                axes.errorbar(found.value, place, xerr=sides, fmt="o", color="C0", capsize=3)
            axes.set_xlim(-0.03, 1.03)
            axes.set_xlabel("share of runs that survive, 95 %")
            axes.set_title(f"{made.cell.dataset}, α = {made.cell.alpha:g}")
        row[0].set_yticks(range(len(ARMS)), [arm.label for arm in ARMS.values()])
        row[0].invert_yaxis()
    return figure
