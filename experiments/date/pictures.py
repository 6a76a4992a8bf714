"""Figures of the DATE study, drawn from its finished runs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.common.figures import GREY, new_figure
from experiments.date.groups import lenet_runs, lipschitz_runs, needle_runs, ratio_run
from experiments.date.plan import TOGGLES
from experiments.date.rows import Row, curvature, layer_ratios
from experiments.date.size import Study
from gossip.report import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = Sequence[tuple[Row, Run]]


def pictures(results: Results, size: Study) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure of each part that has runs to show."""
    rows, runs = [row for row, _ in results], {row.key: run for row, run in results}
    makers = {
        "lenet": (_lenet, bool([r for r in rows if (r.part, r.batch) == ("lenet", _large(size))])),
        "lstm": (_lstm, any(row.part == "lstm" for row in rows)),
        "needle": (_needle, any(row.part == "needle" for row in rows)),
        "lipschitz": (_lipschitz, bool(lipschitz_runs(rows, size))),
        "ratios": (_ratios, ratio_run(rows, size) is not None),
    }
    for name, (draw, has_runs) in makers.items():
        if has_runs:
            yield f"date_{name}.png", draw(rows, runs, size)


def _large(size: Study) -> int:
    return size.lenet.batch


def _lenet(rows: Sequence[Row], runs: dict[str, Run], size: Study) -> "Figure":
    """Test error over epochs, a panel for each solver."""
    of = size.lenet
    lines = [("manual", of.baseline), ("manual", of.batch)]
    lines += [(toggle, of.batch) for toggle in TOGGLES] + [("date", of.batch)]
    with new_figure(5.5 * len(of.solvers), 4.6) as figure:
        panels = np.atleast_1d(figure.subplots(1, len(of.solvers), sharey=True))
        for axes, (solver, _) in zip(panels, of.solvers, strict=True):
            for i, (method, batch) in enumerate(lines):
                found = lenet_runs(rows, size, solver, method, batch)
                label = f"{_label(method)}, B = {batch}"
                style, color = ("--", GREY) if batch == of.baseline else ("-", f"C{i - 1}")
                for row in found:
                    _errors(axes, runs[row.key], color=color, ls=style, label=label)
                    label = None
            axes.set_title(f"LeNet, {solver}")
            axes.set_xlabel("epoch")
        panels[0].set_ylabel("test error, %")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=2 * len(of.solvers))
    return figure


def _lstm(rows: Sequence[Row], runs: dict[str, Run], size: Study) -> "Figure":
    """Every trial over its rate, a panel for each batch; DATE's chosen one as a line."""
    batches = sorted(size.lstm.batches)
    with new_figure(4.2 * len(batches), 4.2) as figure:
        panels = np.atleast_1d(figure.subplots(1, len(batches), sharey=True))
        for axes, batch in zip(panels, batches, strict=True):
            found = [r for r in rows if (r.part, r.batch, r.seed) == ("lstm", batch, 0)]
            for i, method in enumerate(("adam", "adam-wide", "momentum", "date")):
                points = sorted((r.lr, r.test_error) for r in found if r.method == method)
                if points:
                    lrs, errors = zip(*points, strict=True)
                    axes.plot(lrs, 100 * np.array(errors), "o-", color=f"C{i}", label=method)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(f"LSTM, B = {batch}")
            axes.set_xlabel("rate (DATE: the baseline's)")
        panels[0].set_ylabel("test error, %")
        _legend(figure, list(panels))
    return figure


def _needle(rows: Sequence[Row], runs: dict[str, Run], size: Study) -> "Figure":
    """Test error over LARS's rate: all of it, and around the best."""
    found = [row for row in rows if row.part == "needle"]
    fine = set(needle_runs(rows, size))
    with new_figure(9, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        for axes, chosen in ((left, found), (right, [r for r in found if _near(r.lr, fine)])):
            for row in chosen:
                axes.plot(row.lr, 100 * row.test_error, "o", color=f"C{row.seed}")
            axes.set_xlabel("learning rate")
        left.set_xscale("log")
        left.set_ylabel("test error, %")
        left.set_title("steps of a factor")
        right.set_title("steps of 0.6 %, colours are seeds")
    return figure


def _lipschitz(rows: Sequence[Row], runs: dict[str, Run], size: Study) -> "Figure":
    """Running median of L over epochs and over updates."""
    with new_figure(10, 4.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for i, (batch, found) in enumerate(lipschitz_runs(rows, size).items()):
            for row in found:
                epochs, values = curvature(runs[row.key])
                label = f"B = {batch}" if row is found[0] else None
                left.plot(epochs, values, color=f"C{i}", lw=1.2, label=label)
                updates = epochs * size_of_epoch(size, batch)
                right.plot(updates, values, color=f"C{i}", lw=1.2)
        left.set_ylabel("L(x, g), median of three")
        left.set_xlabel("epoch")
        right.set_xlabel("update")
        right.set_xscale("symlog", linthresh=10)
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _ratios(rows: Sequence[Row], runs: dict[str, Run], size: Study) -> "Figure":
    """Layer ratios over the steps, weights and biases apart."""
    run = ratio_run(rows, size)
    ratios = layer_ratios(runs[run.key]) if run else {}
    with new_figure(10, 4.2) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        for axes, kind in zip(panels, ("weight", "bias"), strict=True):
            chosen = {name: r for name, r in ratios.items() if name.endswith(kind)}
            for i, (name, (steps, values)) in enumerate(chosen.items()):
                axes.plot(steps, values, "o-", ms=3, color=f"C{i}", label=name)
            axes.set_yscale("log")
            axes.set_title(f"{kind}: r within [0.1, 10]")
            axes.set_xlabel("update")
            axes.legend()
        panels[0].set_ylabel("layer ratio r")
    return figure


def size_of_epoch(size: Study, batch: int) -> float:
    """Updates in an epoch of the part lipschitz, which holds nothing out."""
    return (size.samples + size.validation) / batch


def _label(method: str) -> str:
    own = {"date": "DATE, own rate", "ratio": "+ layer ratio", "legw": "+ LEGW"}
    return own.get(method, method if method in ("manual", "plain") else f"+ {method}")


def _errors(axes: "Axes", run: Run, **look: Any) -> None:
    epochs, errors = run.column("epoch"), 100 * run.column("test_error")
    there = np.isfinite(errors)
    axes.plot(epochs[there], errors[there], **look)
    axes.set_yscale("log")


def _near(lr: float, rates: set[float]) -> bool:
    return any(abs(lr - rate) < 1e-3 * rate for rate in rates)


def _legend(figure: "Figure", panels: Sequence["Axes"]) -> None:
    """One entry for each label of any panel."""
    handles = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend([*handles.values()], [*handles], loc="outside upper center", ncols=4)
