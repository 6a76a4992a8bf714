"""Figures of the study, drawn from its committed table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.common.figures import new_figure
from experiments.methods.groups import Measured, front, mean_of
from experiments.methods.methods import ALL_REDUCE, COMPRESSED, METHODS, ROUNDS, STEPS
from experiments.methods.size import PARTITIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {
    "megabytes": "MB that a learner sends",
    "lan": "simulated seconds, 10GbE",
    "fibre": "simulated seconds, home fibre",
}
"""What the test loss is drawn over: columns of `experiments.methods.rows.Row`."""
MARKERS = {ALL_REDUCE: "s", STEPS: "o", COMPRESSED: "^", ROUNDS: "D"}
BOTTOM, TOP = 0.93, 2.5
"""The ends of an axes, in least losses: methods above it are in the table alone."""
NAMED = ("ssgd", "dpsgd", "one-peer")
"""Methods whose points are named beside those of the front; of the others there are too many."""


def pictures(made: Measured) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure, if there is something to show."""
    if any(made.whole(cell) for cell in PARTITIONS):
        yield "methods.png", _pareto(made)


def _pareto(made: Measured) -> "Figure":
    """Mean test loss at the end over what the run has cost: a row of axes a cell."""
    with new_figure(13, 9) as figure:
        grid = figure.subplots(len(PARTITIONS), len(PANELS), sharey="row")
        for row, cell in zip(grid, PARTITIONS, strict=True):
            for axes, (column, label) in zip(row, PANELS.items(), strict=True):
                _panel(axes, made, cell, column)
                axes.set_xlabel(label)
            row[0].set_ylabel(f"test loss, data {cell}")
        handles = [
            grid[0, 0].plot([], [], marker, color=f"C{i}", label=family)[0]
            for i, (family, marker) in enumerate(MARKERS.items())
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _panel(axes: "Axes", made: Measured, cell: str, column: str) -> None:
    groups = made.whole(cell) or {}
    points = {
        name: (mean_of(group, column), mean_of(group, "test_loss"))
        for name, group in groups.items()
    }
    best = front(groups, column)
    steps = sorted(points[name] for name in best)
    if steps:
        axes.step(*zip(*steps, strict=True), where="post", color="0.8", zorder=0)
        least = min(loss for _, loss in points.values())
        axes.set_ylim(BOTTOM * least, TOP * least)
    top = axes.get_ylim()[1]
    for name, (cost, loss) in points.items():
        if not loss <= top:
            continue
        family = METHODS[name].family
        color = f"C{list(MARKERS).index(family)}"
        axes.plot(cost, loss, MARKERS[family], color=color, ms=7 if name in best else 4)
        if name in best or name in NAMED:
            weight = "bold" if name in best else "normal"
            axes.annotate(name, (cost, loss), (5, 4), textcoords="offset points", fontsize=8,
                          fontweight=weight)  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
