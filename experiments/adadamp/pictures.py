"""Figures of the study, drawn from its committed tables."""

from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from experiments.adadamp.groups import Measured, mean_error
from experiments.adadamp.methods import BASELINE, PUBLISHED, SCHEDULES, compared
from experiments.adadamp.workers import PUBLISHED as PUBLISHED_EPOCHS
from experiments.common.figures import ERROR_TICKS, GREY, new_figure
from experiments.common.pairs import difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES = {
    "epoch": "epoch",
    "update": "update",
    "high_4": "simulated seconds, high bandwidth, 4 slots",
    "centralised_each": "simulated seconds, centralised, a slot each",
}
"""What the test error is drawn over: columns of `experiments.adadamp.rows.Point`."""
TICKS = sorted({*ERROR_TICKS, 40, 60, 70})
"""Ticks in % of the logarithmic error axes."""


def pictures(made: Measured) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure of each part that has something to show."""
    if any(made.scheduled(name) for name in SCHEDULES):
        yield f"{made.size.name}_schedules.png", _schedules(made)
    if "facts" in made.size.parts and made.diversity:
        yield f"{made.size.name}_diversity.png", _diversity(made)
    if "workers" in made.size.parts and made.waits:
        yield f"{made.size.name}_workers.png", _workers(made)
    if made.tuned("decay"):
        yield f"{made.size.name}_dampers.png", _dampers(made)


def _schedules(made: Measured) -> "Figure":
    """Test error of the five schedules, over what it costs."""
    with new_figure(10, 8) as figure:
        panels = figure.subplots(2, 2, sharey=True)
        for axes, (column, label) in zip(panels.flat, AXES.items(), strict=True):
            for i, name in enumerate(SCHEDULES):
                _mean_curve(axes, made, name, column, f"C{i}")
            axes.set_xlabel(label)
            axes.set_yscale("log")
            axes.set_ylim(top=_top(made))
            low, high = axes.get_ylim()
            ticks = [tick for tick in TICKS if low <= tick <= high]
            axes.set_yticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
        for axes in panels[:, 0]:
            axes.set_ylabel("test error, %")
        handles = panels[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=3)
    return figure


def _top(made: Measured) -> float:
    """Upper end of the error axes, %: near the first evaluations' or the error of a guess."""
    return min(90.0, 280 * mean_error(made.scheduled(BASELINE)))


def _mean_curve(axes: "Axes", made: Measured, name: str, column: str, color: str) -> None:
    """Mean over seeds, and each seed thinly; all have their evaluations at the same updates."""
    curves = [made.curve(row) for row in made.scheduled(name).values()]
    if not curves:
        return
    x = np.array([[getattr(point, column) for point in curve] for curve in curves])
    errors = 100 * np.array([[point.test_error for point in curve] for curve in curves])
    for one, error in zip(x, errors, strict=True):
        axes.plot(one, error, color=color, lw=0.6, alpha=0.25)
    label = f"{PUBLISHED[name]}: {SCHEDULES[name].label}"
    axes.plot(x.mean(axis=0), errors.mean(axis=0), color=color, label=label)


def _diversity(made: Measured) -> "Figure":
    """Gradient diversity over the distance to the optimum."""
    with new_figure(5.5, 4.2) as figure:
        axes = figure.subplots()
        for i, problem in enumerate(dict.fromkeys(row.problem for row in made.diversity)):
            found = [row for row in made.diversity if row.problem == problem]
            places, values = [row.place for row in found], [row.value for row in found]
            axes.plot(places, values, "o-", color=f"C{i}", label=problem)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.invert_xaxis()
        axes.set_xlabel("distance to the optimum, of that at the start")
        axes.set_ylabel("gradient diversity")
        axes.legend()
    return figure


def _workers(made: Measured) -> "Figure":
    """Seconds of an epoch over samples per worker, ours and the paper's."""
    with new_figure(5.5, 4.2) as figure:
        axes = figure.subplots()
        rows = sorted(made.waits, key=lambda row: row.samples)
        samples = [row.samples for row in rows]
        axes.plot(samples, [row.epoch_s for row in rows], "o-", label="Dask, real processes")
        axes.plot(samples, [PUBLISHED_EPOCHS[s] for s in samples], "s--", color=GREY, label="paper")
        axes.set_xscale("log", base=2)
        axes.set_xticks(samples, [f"{row.samples}\n({row.workers})" for row in rows])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("samples per worker (workers)")
        axes.set_ylabel("seconds of an epoch")
        axes.legend()
    return figure


def _dampers(made: Measured) -> "Figure":
    """Differences of the tuned methods from the falling rate, fewest updates at the top."""
    base, lines = made.tuned("decay"), []
    for name, method in compared(made.size).items():
        group = made.tuned(name)
        if len(group.keys() & base.keys()) < 2 or name in ("decay", "gradient-descent"):
            continue
        updates = fmean(row.updates for row in group.values())
        lines.append((updates, method, difference(group, base)))
    lines.sort(key=lambda line: -line[0])
    with new_figure(8, 5.2) as figure:
        axes = figure.subplots()
        axes.axvline(0, color=GREY, lw=1)
        for i, (_, method, found) in enumerate(lines):
            marker = "s" if method.shares else "o"
            half = found.high - found.value
            axes.errorbar(found.value, i, xerr=half, fmt=marker, color=f"C{int(method.shares)}")
        labels = [f"{method.label}: {updates:,.0f} updates" for updates, method, _ in lines]
        axes.set_yticks(range(len(lines)), labels)
        axes.set_xlabel(
            "points of test error over a rate falling to 1 %\nsquares: several learners"
        )
    return figure
