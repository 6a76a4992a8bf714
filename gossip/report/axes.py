"""Colours, labels and axes that all panels of a figure share."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossip.report.runs import Run
from gossip.report.series import smooth_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

GREY = "#666666"
CROWD = 4
"""From so many runs on, only the smoothed curves and the sum of the parts are drawn."""


class Ink(NamedTuple):
    """How one run is drawn in every panel."""

    run: Run
    color: str
    name: str


def curves(axes: "Axes", inks: list[Ink], name: str, look: dict[str, Any]) -> bool:
    """A column of all runs where it is positive, smoothed; whether there was anything."""
    drawn = False
    for run, color, _ in inks:
        steps, values = run.column("step"), run.column(name)
        there = np.isfinite(values) & (values > 0)
        if not there.any():
            continue
        drawn = True
        steps, values = steps[there], values[there]
        middle = smooth_log(values)
        if len(inks) < CROWD:
            axes.plot(steps, values, color=color, lw=0.5, alpha=0.25, rasterized=True)
        axes.plot(steps, middle, color=color, **look)
    return drawn


def log_or_note(axes: "Axes") -> bool:
    """Logarithmic y axis where there is something to draw on it, a word where there is nothing."""
    # Not those of a vertical line: they are parts of the axis.
    of_data = axes.transData
    lines = [c for c in axes.lines if c.get_transform().contains_branch_seperately(of_data)[1]]
    ys = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines] or [[]])
    ys = ys[np.isfinite(ys)]
    if len(ys):
        # Set before the scale, and finite: a loss may have come close to the largest number.
        axes.set_ylim(ys.min() / 1.3, min(ys.max() * 1.3, 1e30))
        axes.set_yscale("log")
        return True
    note(axes, "not recorded, or zero")
    return False


def legend(axes: "Axes", looks: dict[str, dict[str, Any]]) -> None:
    """What the line styles mean, in one row above the curves."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(top=top * (top / bottom) ** 0.12)
    handles = [line(GREY, label, **look) for label, look in looks.items()]
    axes.legend(
        handles=handles, loc="upper right", ncols=len(looks), columnspacing=1, handlelength=2
    )


def note(axes: "Axes", text: str) -> None:
    """A word in the middle of an empty panel."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set_yticks([])


def line(color: str, label: str, **look: Any) -> "Line2D":
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, label=label, ms=4, mfc="white", **look)


def positive(values: np.ndarray) -> np.ndarray:
    """`values` with NaN, a gap in a curve, where a logarithmic axis has no place for them."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def plain(text: str) -> str:
    """`text` with its dollars shown: a label comes from a file and is no formula."""
    return text.replace("$", r"\$")
