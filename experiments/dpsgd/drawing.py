"""Colours, markers and curves over seeds are the same in all figures of the DPSGD study."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.dpsgd.rows import Result
from gossip.report.series import smooth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMOOTHED = 25
"""Steps over which a training loss is averaged before it is drawn."""

COLOURS = {"dpsgd": "C0", "ssgd": "C1", "eval": "C2", "persist": "C3", "centered": "C4"}
NAMES = {
    "dpsgd": "DPSGD",
    "ssgd": "SSGD",
    "eval": "SSGD*, noise where gradients are taken",
    "persist": "SSGD*, noise that persists",
    "centered": "SSGD*, centered noise",
}
MARKERS = {"smooth": "o", "oscillating": "^", "stuck": "s", "dead": "X", "nan": "x"}
FILLED = ("smooth", "dead", "nan")


def name_of(result: Result) -> str:
    """A key of COLOURS: the algorithm, or the noise mode of SSGD*."""
    return result.row.noise_mode or result.row.algorithm


def training_loss(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Steps and smoothed training loss; NaN where there is nothing for a logarithmic axis."""
    steps, loss = result.run.column("step"), smooth(result.run.column("train_loss"), SMOOTHED)
    return steps, np.where(loss > 0, loss, np.nan)


def test_error(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Steps and test error in %, where it was evaluated."""
    return monitored(result, "test_error", 100.0)


def monitored(result: Result, name: str, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a column where it is finite."""
    steps, values = result.run.column("step"), factor * result.run.column(name)
    there = np.isfinite(values)
    return steps[there], values[there]


Curve = Callable[[Result], tuple[np.ndarray, np.ndarray]]


def draw_seeds(axes: "Axes", results: Sequence[Result], curve: Curve, color: str) -> None:
    """A light line for each seed, marked where it becomes NaN, and a thick one for the median."""
    curves = [curve(result) for result in results]
    for result, (steps, values) in zip(results, curves, strict=True):
        axes.plot(steps, values, color=color, lw=0.7, alpha=0.45)
        finite = np.flatnonzero(np.isfinite(values))
        if result.row.kind == "nan" and len(finite):
            axes.plot(steps[finite[-1]], values[finite[-1]], "x", color=color, ms=8, mew=2)
    steps, middle = median(curves)
    axes.plot(steps, middle, color=color, lw=2.2)


def median(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Median over curves at each step that any has; a curve that ended early counts as infinite."""
    steps = np.unique(np.concatenate([s for s, _ in curves])) if curves else np.empty(0)
    table = np.full((len(curves), len(steps)), np.inf)
    for line, (at, values) in zip(table, curves, strict=True):
        line[np.searchsorted(steps, at)] = np.where(np.isfinite(values), values, np.inf)
    middle = np.median(table, axis=0) if len(curves) else np.empty(0)
    return steps, np.where(np.isfinite(middle), middle, np.nan)


def percent_axis(axes: "Axes") -> None:
    """A logarithmic axis of test errors in %, the same in all pictures."""
    axes.set_yscale("log")
    axes.set_ylim(1.8, 100)
    ticks = (2, 3, 5, 10, 20, 50, 100)
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
