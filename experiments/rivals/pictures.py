"""Figure of the comparison of decentralised and large-batch training."""

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import ERROR_TICKS, GREY, new_figure
from experiments.lena.tables import Rows
from experiments.rivals.plan import RIVALS, rivals, tuned_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CUT = 90.0
"""Error in % at which lost runs are drawn, as crosses."""


def tuned(rows: Rows) -> "Figure":
    """Best validation errors of all methods, a point for each seed, an axes for each n."""
    names, learners = list(rivals(rows.study)), rows.study.rival_learners
    with new_figure(5.2 * len(learners), 1.2 + 0.32 * len(names)) as figure:
        row = figure.subplots(1, len(learners), sharey=True, squeeze=False)[0]
        target = 100 * rows.target()
        for axes, n in zip(row, learners, strict=True):
            for place, name in enumerate(names):
                color = "C0" if RIVALS[name].recipe.algorithm == "dpsgd" else "C1"
                for result in tuned_rows(rows, name, n):
                    error = CUT if result.lost else 100 * result.best_error
                    axes.plot(error, place, "x" if result.lost else "o", color=color, ms=6)
            if np.isfinite(target):
                axes.axvline(target, color=GREY, ls=":")
            axes.set_xscale("log")
            axes.set_xlim(ERROR_TICKS[0], 95)
            axes.set_xticks(ERROR_TICKS, [str(tick) for tick in ERROR_TICKS])
            axes.minorticks_off()
            axes.set_title(f"n = {n}")
            axes.set_xlabel("best error, % (dotted: single worker)")
        row[0].set_yticks(range(len(names)), [RIVALS[name].label for name in names])
        row[0].invert_yaxis()
    return figure
