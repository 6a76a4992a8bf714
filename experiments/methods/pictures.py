"""Figures of the study, drawn from its committed table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import GREY, new_figure
from experiments.methods.groups import Measured, front, mean_of
from experiments.methods.methods import ALL_REDUCE, COMPRESSED, METHODS, ROUNDS, STEPS
from experiments.methods.size import PARTITIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

PANELS = {
    "megabytes": "MB that a learner sends",
    "lan": "simulated seconds, 10GbE",
    "fibre": "simulated seconds, home fibre",
}
"""What the test loss is drawn over: columns of `experiments.methods.rows.Row`."""
MARKERS = {ALL_REDUCE: "s", STEPS: "o", COMPRESSED: "^", ROUNDS: "D"}
BOTTOM, TOP = 0.99, 2.5
"""The ends of an axes, in least losses: methods above it are in the table alone."""
ZERO = 0.95
"""In least losses, from where the axis is logarithmic: most are within a tenth of the best."""
LOSSES = (1, 1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2, 2.4)
"""Ticks, in least losses."""
WIDE = 3.0
"""Largest over least cost from which on an axis of costs is logarithmic."""
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
        names: list[list[Annotation]] = []
        for row, cell in zip(grid, PARTITIONS, strict=True):
            for axes, (column, label) in zip(row, PANELS.items(), strict=True):
                names.append(_panel(axes, made, cell, column))
                axes.set_xlabel(label)
            row[0].set_ylabel(f"test loss, data {cell}")
        handles = [
            grid[0, 0].plot([], [], marker, color=f"C{i}", label=family)[0]
            for i, (family, marker) in enumerate(MARKERS.items())
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        figure.draw_without_rendering()
        for of_panel in names:
            _move_apart(of_panel)
    return figure


def _panel(axes: "Axes", made: Measured, cell: str, column: str) -> "list[Annotation]":
    """Draw one axes; gives the names in it."""
    groups = made.whole(cell) or {}
    points = {
        name: (mean_of(group, column), mean_of(group, "test_loss"))
        for name, group in groups.items()
    }
    if not points:
        return []
    least = min(loss for _, loss in points.values())
    best = front(groups, column)
    axes.step(
        *zip(*sorted(points[name] for name in best), strict=True),
        where="post", color="0.8", zorder=0,
    )  # fmt: skip
    names = []
    for name, (cost, loss) in points.items():
        if not loss <= TOP * least:
            continue
        family = METHODS[name].family
        color = f"C{list(MARKERS).index(family)}"
        axes.plot(cost, loss, MARKERS[family], color=color, ms=7 if name in best else 4)
        if name in best or name in NAMED:
            weight = "bold" if name in best else "normal"
            thin = {"arrowstyle": "-", "lw": 0.5, "color": GREY, "shrinkA": 0}
            names.append(axes.annotate(name, (cost, loss), (5, 4), textcoords="offset points",
                                       fontsize=8, fontweight=weight, arrowprops=thin))  # fmt: skip
    costs = [cost for cost, _ in points.values()]
    if max(costs) > WIDE * min(costs):
        axes.set_xscale("log")
    _scale_losses(axes, least)
    return names


def _scale_losses(axes: "Axes", least: float) -> None:
    """A logarithmic axis of how far losses are above `ZERO`, labelled by the losses."""

    def forward(loss: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(loss / least - ZERO, 1e-9))

    def inverse(place: np.ndarray) -> np.ndarray:
        return least * (np.exp(place) + ZERO)

    axes.set_yscale("function", functions=(forward, inverse))
    axes.set_ylim(BOTTOM * least, TOP * least)
    axes.set_yticks([least * of for of in LOSSES], [f"{least * of:.3f}" for of in LOSSES])


def _move_apart(names: "list[Annotation]") -> None:
    """Move names up, from the lowest on, until none lies on another."""
    from matplotlib.text import Text

    placed = []
    for name in sorted(names, key=lambda name: Text.get_window_extent(name).y0):
        # Of the letters alone: an annotation's own box has its thin line, too.
        while any(Text.get_window_extent(name).overlaps(other) for other in placed):
            x, y = name.xyann
            name.xyann = (x, y + 3)
        placed.append(Text.get_window_extent(name))
