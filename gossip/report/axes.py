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
COLOURS = 7
"""Of the style sheet; where more runs begin with them again, the style of the line is another."""
FEW = 5
"""Up to so many points have marks: a line of one point is nothing."""


class Ink(NamedTuple):
    """How one run is drawn in every panel."""

    run: Run
    color: str
    name: str
    ls: Any = "-"
    """The style of its line; where it is no full one, styles tell runs apart and nothing else."""


def curves(
    axes: "Axes", inks: list[Ink], name: str, look: dict[str, Any], least: float = 0.0
) -> bool:
    """A column of all runs where it is above `least`, smoothed; whether there was anything."""
    drawn = False
    for run, color, _, ls in inks:
        steps, values = run.column("step"), run.column(name)
        there = np.isfinite(values) & (values > least)
        if not there.any():
            continue
        drawn = True
        steps, values = steps[there], values[there]
        middle = smooth_log(values)
        if len(inks) < CROWD:
            axes.plot(steps, values, color=color, lw=0.5, alpha=0.25, rasterized=True)
        axes.plot(steps, middle, color=color, **{"ls": ls} | marks(len(steps)) | look)
    return drawn


def marks(count: int) -> dict[str, Any]:
    """How a curve of so many points is marked."""
    return {"marker": "o", "ms": 4} if count <= FEW else {}


def remark(axes: "Axes", text: str) -> None:
    """A word on what a panel does not show, outside of it: beside the name of its x axis."""
    axes.set_xlabel(f"{axes.get_xlabel()}   ({text})")


def log_or_note(axes: "Axes") -> bool:
    """Logarithmic y axis where there is something to draw on it, a word where there is nothing."""
    # Not those of a vertical line, which are parts of the axis.
    drawn = [
        c for c in axes.lines if c.get_transform().contains_branch_seperately(axes.transData)[1]
    ]
    ys = np.concatenate([np.asarray(line.get_ydata(), float) for line in drawn] or [[]])
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
