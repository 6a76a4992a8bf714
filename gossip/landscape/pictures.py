"""The picture of a landscape: lines through the learners, and contours of the loss."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gossip.landscape.measure import Landscape
from gossip.landscape.planes import UNITS
from gossip.report.axes import GREY, log_or_note, plain
from gossip.report.figures import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = 20


def picture(shown: Landscape, name: str) -> "Figure":
    """Panels for the lines, if learners differ, and for each contour; save it with `save`."""
    from matplotlib import style
    from matplotlib.figure import Figure

    panels = bool(shown.lines) + len(shown.contours)
    with style.context(STYLE):
        figure = Figure(figsize=(4.4 * panels, 4.0), layout="constrained")
        row = list(figure.subplots(1, panels, squeeze=False)[0])
        if shown.lines:
            _lines(row.pop(0), shown.lines)
        for axes, (kind, contour) in zip(row, shown.contours.items(), strict=True):
            _contour(axes, kind, contour)
        # Below: an axes has no corner without curves.
        named = [axes.get_legend_handles_labels() for axes in figure.axes]
        entries = {label: handle for pair in named for handle, label in zip(*pair, strict=True)}
        figure.legend(entries.values(), entries, loc="outside lower center", ncols=2 * panels)
        figure.suptitle(plain(f"{name}, step {shown.step}"), fontsize="medium")
    return figure


def _lines(axes: "Axes", lines: dict[str, dict[str, list[float]]]) -> None:
    """From the mean at 0 through learners at 1, faintly; between the two farthest, dashed."""
    to_learners = {key: line for key, line in lines.items() if key.startswith("mean")}
    for line in to_learners.values():
        axes.plot(line["at"], line["loss"], color="C0", lw=0.8)
    axes.plot([], [], color="C0", label="mean (0) to a learner (1)")
    for key, line in lines.items():
        if key not in to_learners:
            axes.plot(line["at"], line["loss"], color="C1", ls="--", label=f"{key} (0 to 1)")
    for place in (0, 1):
        axes.axvline(place, color=GREY, lw=0.6)
    axes.set_xlabel("place on the line")
    axes.set_ylabel("training loss")
    axes.set_title("lines")
    log_or_note(axes)


def _contour(axes: "Axes", kind: str, contour: dict[str, Any]) -> None:
    """Levels of the loss, evenly spaced in its logarithm, with the learners and their mean."""
    loss, axis = np.array(contour["loss"]), contour["axis"]
    finite = loss[np.isfinite(loss)]
    title = kind
    if len(finite) and finite.min() > 0 and finite.max() > finite.min():
        levels = np.geomspace(finite.min(), finite.max(), LEVELS)
        drawn = axes.contour(axis, axis, loss, levels=levels, cmap="viridis", linewidths=0.8)
        axes.clabel(drawn, levels[::4], fontsize="x-small", fmt="%.2g")
    else:
        title += ": the loss is the same everywhere, or not finite"
    places = np.array(contour["learners"])
    axes.plot(*places.T, "o", color="C3", ms=4, mfc="white", label="learners")
    axes.plot(0, 0, "+", color="black", ms=8, label="mean")
    axes.set_title(title)
    axes.set_aspect("equal")
    axes.set_xlabel(UNITS[kind])
