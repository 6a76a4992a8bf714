"""Panels of a learning-rate rule: the rate and the gradient variance by layer."""

from typing import TYPE_CHECKING

import numpy as np

from gossip.report.axes import Ink, log_or_note, marks, positive
from gossip.report.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def has_noise(runs: list[Run]) -> bool:
    """Whether any run recorded alpha_e or Delta."""
    return any(np.isfinite(run.column(name)).any() for run in runs for name in ("alpha_e", "delta"))


def by_layer(run: Run, column: str) -> dict[str, np.ndarray]:
    """Layer -> column of the trace, [rows], for a column that is kept for each layer."""
    prefix = f"{column}/"
    names = [name for name in run.trace.column_names if name.startswith(prefix)]
    return {name.removeprefix(prefix): run.column(name) for name in names}


def learning_rate(axes: "Axes", inks: list[Ink]) -> None:
    """Panel b: the rate, its mean over the layers thick and each layer thin."""
    axes.set_title("b  learning rate" + _thin(inks, "lr"))
    _draw(axes, inks, "lr")


def gradient_variance(axes: "Axes", inks: list[Ink]) -> None:
    """Panel d: gradient variance, of the whole model thick and of each layer thin."""
    axes.set_title("d  gradient variance" + _thin(inks, "grad_var"))
    _draw(axes, inks, "grad_var")


def _thin(inks: list[Ink], column: str) -> str:
    return "; thin: layers" if any(by_layer(ink.run, column) for ink in inks) else ""


def _draw(axes: "Axes", inks: list[Ink], column: str) -> None:
    for run, color, _, ls in inks:
        steps = run.column("step")
        curves = [*by_layer(run, column).values(), run.column(column)]
        for k, values in enumerate(curves):
            there = np.isfinite(values)
            width, alpha = (0.5, 0.5) if k < len(curves) - 1 else (None, None)
            if there.any():
                look = marks(int(there.sum()))
                values = positive(values[there])
                axes.plot(steps[there], values, color=color, ls=ls, lw=width, alpha=alpha, **look)
    log_or_note(axes)
