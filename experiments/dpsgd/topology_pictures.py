"""Figure of the comparison of topologies, drawn from its finished runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import GREY, new_figure
from experiments.common.scale import Scale
from experiments.dpsgd.drawing import FILLED, MARKERS, percent_axis, test_error
from experiments.dpsgd.drawing import median as median_of
from experiments.dpsgd.rows import Result
from topologies import Certificate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def comparison(
    results: Sequence[Result], certificates: Mapping[str, Certificate], scale: Scale
) -> "Figure":
    """Test error over iterations, and at the end over how far the learners are apart."""
    groups = grouped(results, [*certificates, "-"])
    with new_figure(11, 5.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for i, (name, group) in enumerate(groups.items()):
            look = _look(name, i)
            steps, middle = median_of([test_error(result) for result in group])
            left.plot(steps, middle, lw=1.8, label=_label(name), **look)
            if name != "-":
                _points(right, group, look["color"], scale.steps)
        for axes in (left, right):
            percent_axis(axes)
        left.set_title("median over seeds")
        left.set_xlabel("iteration")
        left.set_ylabel("test error, %")
        right.set_title(f"each seed after {scale.steps} steps")
        right.set_xscale("log")
        right.set_xlabel(r"$\sigma_w^2$ (trace), mean over the last fifth")
        figure.legend(loc="outside upper center", ncols=5)
    return figure


def grouped(results: Sequence[Result], names: Sequence[str]) -> dict[str, list[Result]]:
    """The runs of each topology in the order of `names`, those that have any."""
    groups = {name: [r for r in results if r.row.topology == name] for name in names}
    return {name: group for name, group in groups.items() if group}


def _look(name: str, i: int) -> dict[str, str]:
    """Seven colours; where they begin again, lines are broken. SSGD is grey."""
    if name == "-":
        return {"color": GREY, "ls": ":"}
    return {"color": f"C{i % 7}", "ls": "-" if i < 7 else "--"}


def _label(name: str) -> str:
    return "SSGD" if name == "-" else name


def _points(axes: "Axes", group: Sequence[Result], color: str, step: int) -> None:
    for result in group:
        row = result.row
        error = row.error_at[step]
        error = row.final_error if np.isnan(error) else error
        filled = color if row.kind_fixed in FILLED else "none"
        axes.plot(
            row.sigma_w2_late,
            100 * error,
            marker=MARKERS[row.kind_fixed],
            color=color,
            mfc=filled,
            ms=7,
            mew=1.5,
            ls="none",
        )
