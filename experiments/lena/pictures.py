"""Figures of the LENA study, drawn from its finished runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import ERROR_TICKS, GREY, new_figure
from experiments.lena.plan import DIAGONAL, Recipe, cell, halves
from experiments.lena.rows import Result, Row, traces, warm_ends
from experiments.lena.tables import Rows
from gossip.compare import metrics
from gossip.report import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"LSW": "C1", "AdaScale": "C2", "LENA": "C0"}
LENA = cell(*DIAGONAL["LENA"])


def pictures(rows: Rows, results: Mapping[str, Result]) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure of each picture."""
    book = Book(rows, results)
    yield "lena_table1.png", book.table1()
    yield "lena_fig6.png", book.curves()
    yield "lena_variance.png", book.variance()
    yield "lena_warmup.png", book.warmup()
    yield "lena_layers.png", book.layers()


def error_axis(axes: "Axes") -> None:
    """A logarithmic axis of errors in %."""
    axes.set_yscale("log")
    axes.set_ylim(ERROR_TICKS[0], 95)
    axes.set_yticks(ERROR_TICKS, [str(tick) for tick in ERROR_TICKS])
    axes.minorticks_off()


def learners_axis(axes: "Axes", learners: Sequence[int]) -> None:
    """A logarithmic axis of n."""
    axes.set_xscale("log")
    axes.set_xticks(learners, [str(n) for n in learners])
    axes.minorticks_off()
    axes.set_xlabel("learners n")


class Book:
    """Draws the figures: means over seeds from the rows, curves from the traces of the runs."""

    def __init__(self, rows: Rows, results: Mapping[str, Result]) -> None:
        self.rows, self.results = rows, results
        self.made = rows.study

    def table1(self) -> "Figure":
        """Best errors and epochs to the easier target over n."""
        with new_figure(10, 4.2) as figure:
            left, right = figure.subplots(1, 2)
            for name, parts in DIAGONAL.items():
                groups = {n: self.rows.group(cell(*parts), n) for n in self.made.learners}
                points(left, groups, "best_error", COLOURS[name], name, 100.0)
                points(right, groups, "easy_epochs", COLOURS[name], name)
            target = 100 * self.rows.target()
            if np.isfinite(target):
                left.axhline(target, color=GREY, ls=":", label="single worker")
            error_axis(left)
            left.set_title("best validation error, %")
            right.set_title("epochs to the easier target (none: N/A)")
            for axes in (left, right):
                learners_axis(axes, self.made.learners)
            left.legend()
        return figure

    def curves(self) -> "Figure":
        """Fig. 6: validation error over epochs, an axes for each n."""
        with new_figure(3 * len(self.made.learners), 3.6) as figure:
            row = figure.subplots(1, len(self.made.learners), sharey=True, squeeze=False)[0]
            for axes, n in zip(row, self.made.learners, strict=True):
                self._lines(axes, self.rows.singles(), GREY, "single worker")
                for name, parts in DIAGONAL.items():
                    self._lines(axes, self.rows.group(cell(*parts), n), COLOURS[name], name)
                axes.set_title(f"n = {n}")
                axes.set_xlabel("epoch")
                error_axis(axes)
            row[0].set_ylabel("validation error, %")
            handles, labels = row[0].get_legend_handles_labels()
            if handles:
                figure.legend(handles, labels, loc="outside upper center", ncols=4)
        return figure

    def variance(self) -> "Figure":
        """Figs. 2 and 3: gradient variance over accuracy, and of each layer over epochs."""
        with new_figure(11, 4.4) as figure:
            left, right = figure.subplots(1, 2)
            for i, n in enumerate(self.made.learners):
                for run in self._runs(LENA, n):
                    found = metrics.evaluations(run, metrics.VALIDATION)
                    values = run.column("grad_var")
                    steps = run.column("step")
                    at = np.array([values[steps == step][-1] for step in found.steps])
                    left.plot(100 * (1 - found.errors), at, color=f"C{i}", marker=".",
                              label=f"n = {n}")  # fmt: skip
            n = self.made.learners[len(self.made.learners) // 2]
            for run in self._runs(LENA, n):
                per_step = run.setting("epochs") / run.number("steps_planned")
                for i, (layer, values) in enumerate(traces(run, "grad_var").items()):
                    there = np.isfinite(values)
                    epochs = run.column("step")[there] * per_step
                    right.plot(epochs, values[there], color=f"C{i % 8}", label=layer,
                               ls="-" if "weight" in layer else "--")  # fmt: skip
            left.set(xlabel="validation accuracy, %", ylabel="gradient variance", yscale="log")
            left.set_title("whole model, LENA, seed 0")
            right.set(xlabel="epoch", yscale="log")
            right.set_title(f"each layer, n = {n}")
            for axes in (left, right):
                if axes.lines:
                    axes.legend(fontsize="small")
        return figure

    def warmup(self) -> "Figure":
        """Fig. 7: the epochs after which each layer is warm."""
        with new_figure(9, 3.8) as figure:
            axes = figure.subplots()
            width = 0.8 / len(self.made.learners)
            for i, n in enumerate(self.made.learners):
                for run in self._runs(LENA, n):
                    ends = warm_ends(run)
                    places = np.arange(len(ends)) + (i + 0.5) * width - 0.4
                    axes.bar(places, list(ends.values()), width, color=f"C{i}", label=f"n = {n}")
                    axes.set_xticks(range(len(ends)), list(ends))
            axes.set_ylabel("epochs until warm")
            axes.set_title("end of LENA's warm-up by layer, seed 0 (no bar: never)")
            if axes.containers:
                axes.legend()
        return figure

    def layers(self) -> "Figure":
        """Fig. 4: LENA on half of the layers and on all."""
        with new_figure(4.5 * len(self.made.layer_learners), 3.8) as figure:
            row = figure.subplots(1, len(self.made.layer_learners), sharey=True, squeeze=False)[0]
            for axes, n in zip(row, self.made.layer_learners, strict=True):
                for recipe in halves(self.made):
                    group = self.rows.group(recipe, n, seeds=1)
                    self._lines(axes, group, "C3", "half of the layers")
                self._lines(axes, self.rows.group(LENA, n, seeds=1), "C0", "all layers")
                axes.set_title(f"n = {n}")
                axes.set_xlabel("epoch")
                error_axis(axes)
            row[0].set_ylabel("validation error, %")
            if row[0].lines:
                row[0].legend()
        return figure

    def _runs(self, recipe: Recipe, n: int) -> list[Run]:
        """The run of seed 0, in a list that is empty while it is missing."""
        return [self.results[r.key].run for r in self.rows.group(recipe, n, seeds=1)]

    def _lines(self, axes: "Axes", group: Sequence[Row], color: str, label: str) -> None:
        """A line for each run; all of a label have one entry in the legend."""
        for row in group:
            found = metrics.evaluations(self.results[row.key].run, metrics.VALIDATION)
            known = any(line.get_label() == label for line in axes.lines)
            axes.plot(found.epochs, 100 * found.errors, color=color, lw=1.4,
                      label="_" if known else label)  # fmt: skip


def points(
    axes: "Axes",
    groups: Mapping[int, Sequence[Row]],
    name: str,
    color: str,
    label: str,
    factor: float = 1.0,
) -> None:
    """A column over n: a point for each run that is not lost, and a line through their means."""
    means = {}
    for n, group in groups.items():
        values = [factor * getattr(row, name) for row in group if not row.lost]
        values = [value for value in values if np.isfinite(value)]
        axes.plot([n] * len(values), values, "o", color=color, ms=4, alpha=0.5)
        # A gap in the line where all runs were lost.
        means[n] = float(np.mean(values)) if values else np.nan
    axes.plot(list(means), list(means.values()), color=color, label=label)
