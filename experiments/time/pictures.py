"""Figures of the study of time."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import GREY, new_figure
from experiments.time.rows import Row, of
from gossip.simulate.phase_picture import panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHASES = {
    "phase-step": "a step, n = {n}",
    "phase-runs": "to a common target, n = {n}",
    "phase-target": "one learner or many to a target",
}
"""Table -> title of a phase diagram."""


def pictures(rows: Sequence[Row]) -> Iterator[tuple[str, "Figure"]]:
    """Name and figure of everything that there are rows for."""
    if of(rows, "stragglers"):
        yield "time_stragglers.png", _stragglers(rows)
    if of(rows, "phase-step"):
        yield "time_phase.png", _phases(rows)
    if of(rows, "measured"):
        yield "time_measured.png", _measured(rows)


def _stragglers(rows: Sequence[Row]) -> "Figure":
    """Seconds a step over the number of learners."""
    models = dict.fromkeys(row.how for row in of(rows, "stragglers"))
    with new_figure(9, 3.7) as figure:
        panels = figure.subplots(1, len(models), squeeze=False)[0]
        for axes, model in zip(panels, models, strict=True):
            found = of(rows, "stragglers", how=model)
            for k, name in enumerate(dict.fromkeys(row.name for row in found)):
                line = [row for row in found if row.name == name]
                # Thinner and thinner: a line stays to be seen behind one of the same values.
                look = {"lw": max(1.0, 5 - k), "ms": max(3.0, 9 - 1.5 * k), "label": name}
                axes.semilogx([r.n for r in line], [r.value for r in line], "o-", **look)
            axes.set(title=f"slow: {model}", xlabel="learners", ylabel="seconds per step")
            axes.set_ylim(bottom=0)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def _phases(rows: Sequence[Row]) -> "Figure":
    """Who is fastest over bandwidth and latency, an axes for each table and n."""
    cases = list(dict.fromkeys((table, row.n) for table in PHASES for row in of(rows, table)))
    columns = min(len(cases), 3)
    lines = -(-len(cases) // columns)
    with new_figure(3.5 * columns, 3.9 * lines) as figure:
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        names = sorted({row.name for table, n in cases for row in of(rows, table, n=n)})
        for axes in panels[len(cases) :]:
            axes.set_axis_off()
        for axes, (table, n) in zip(panels, cases, strict=False):
            points = [(row.name, row.bandwidth, row.latency) for row in of(rows, table, n=n)]
            panel(axes, points, names, PHASES[table].format(n=n))
    return figure


def _measured(rows: Sequence[Row]) -> "Figure":
    """Predicted over measured seconds."""
    found = of(rows, "measured")
    with new_figure(4.6, 4.2) as figure:
        axes = figure.subplots()
        for how, mark in (("fitted", "x"), ("held out", "o")):
            for k, name in enumerate(dict.fromkeys(row.name for row in found)):
                part = [row for row in found if row.name == name and row.how == how]
                if part:
                    x, y = ([getattr(r, a) for r in part] for a in ("reference", "value"))
                    axes.loglog(x, y, mark, color=f"C{k}", label=f"{name}, {how}", alpha=0.8)
        ends = np.array([min(r.reference for r in found), max(r.reference for r in found)])
        axes.loglog(ends, ends, color=GREY, lw=1)
        axes.set(xlabel="measured seconds per step", ylabel="predicted")
        axes.legend(fontsize="small")
    return figure
