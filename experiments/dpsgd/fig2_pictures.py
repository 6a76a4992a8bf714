"""Figures of the study of Figure 2, drawn from its finished runs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import new_figure
from experiments.common.scale import Scale
from experiments.dpsgd import ssgd_star
from experiments.dpsgd.drawing import (
    COLOURS,
    FILLED,
    MARKERS,
    NAMES,
    draw_seeds,
    monitored,
    name_of,
    percent_axis,
    test_error,
    training_loss,
)
from experiments.dpsgd.rows import Result
from gossip.report.series import alpha_ratio, running_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES_AT = (1.0, 1.5)
"""Learning rates whose curves are drawn: the paper's, and that at which SSGD* is searched first."""
RATIO_WINDOW = 7
"""Monitored steps over which alpha_e/alpha is averaged, weighted by ||g||^2."""
INPUT_NAMES = {"unit": "inputs in [0, 1]", "standardised": "standardised inputs"}


def pictures(results: Sequence[Result], scale: Scale) -> Iterator[tuple[str, "Figure"]]:
    """Yield file name and figure of each picture."""
    yield "fig2a.png", curves(results)
    yield "fig2b.png", rates(results)
    yield "fig2_errors.png", errors(results, scale)
    yield "ssgd_star.png", noise(results, scale)


def curves(results: Sequence[Result]) -> "Figure":
    """Training loss and test error over iterations, as Fig. 2(a)."""
    with new_figure(10, 7) as figure:
        axes = figure.subplots(2, len(CURVES_AT), sharex="col", sharey="row")
        for column, alpha in zip(axes.T, CURVES_AT, strict=True):
            shown = _compared(results, alpha)
            for name, group in shown.items():
                draw_seeds(column[0], group, training_loss, COLOURS[name])
                draw_seeds(column[1], group, test_error, COLOURS[name])
            column[0].set_title(f"inputs in [0, 1], α = {alpha:g}")
            column[0].set_yscale("log")
            column[0].set_ylim(0.04, 10)
            percent_axis(column[1])
            column[1].set_xlabel("iteration")
        axes[0, 0].set_ylabel("training loss, mean of 25 steps")
        axes[1, 0].set_ylabel("test error, %")
        drawn = {name: label for name, label in NAMES.items() if name != "centered"}
        _legend(figure, drawn, "thick: median over seeds, thin: each seed, x: becomes NaN")
    return figure


def rates(results: Sequence[Result]) -> "Figure":
    """alpha_e/alpha and sigma_w^2 over iterations at alpha = 1, as Fig. 2(b)."""
    with new_figure(10, 7) as figure:
        axes = figure.subplots(2, len(INPUT_NAMES), sharex=True, sharey="row")
        for column, (inputs, title) in zip(axes.T, INPUT_NAMES.items(), strict=True):
            for name in ("ssgd", "dpsgd"):
                group = _where(results, name, 1.0, inputs)
                draw_seeds(column[0], group, _ratio, COLOURS[name])
            draw_seeds(column[1], group, _spread, COLOURS["dpsgd"])
            column[0].axhline(1, color="#666666", lw=1, ls=":")
            column[0].set_title(f"{title}, α = 1")
            column[0].set_ylim(-0.2, 2)
            column[1].set_yscale("log")
            column[1].set_xlabel("iteration")
        axes[0, 0].set_ylabel(r"$\alpha_e/\alpha$, weighted mean of 350 steps")
        axes[1, 0].set_ylabel(r"$\sigma_w^2$ (trace)")
        names = {name: NAMES[name] for name in ("dpsgd", "ssgd")}
        _legend(figure, names, "thick: median over seeds, thin: each seed")
    return figure


def errors(results: Sequence[Result], scale: Scale) -> "Figure":
    """The test error of every run at the fixed time, with how it went."""
    with new_figure(10, 4.6) as figure:
        panels = figure.subplots(1, len(INPUT_NAMES), sharey=True)
        for axes, (inputs, title) in zip(panels, INPUT_NAMES.items(), strict=True):
            alphas = sorted({result.row.alpha for result in results})
            for i, alpha in enumerate(alphas):
                groups = _compared(results, alpha, inputs)
                for name, group in groups.items():
                    place = i + 0.2 * (list(NAMES).index(name) - 1.5)
                    _strip(axes, place, group, scale.steps)
            axes.set_xticks(range(len(alphas)), [f"α = {alpha:g}" for alpha in alphas])
            axes.set_xlim(-0.5, len(alphas) - 0.5)
            axes.set_title(f"{title}, after {scale.steps} steps")
            percent_axis(axes)
        panels[0].set_ylabel("test error, %")
        drawn = {name: label for name, label in NAMES.items() if name != "centered"}
        _legend(figure, drawn, "SSGD* at its best noise; one mark per seed", MARKERS)
    return figure


def noise(results: Sequence[Result], scale: Scale) -> "Figure":
    """SSGD* over sigma_0: the test error at the fixed time, with DPSGD and SSGD beside it."""
    with new_figure(10, 4.6) as figure:
        panels = figure.subplots(1, len(ssgd_star.ALPHAS), sharey=True)
        for axes, alpha in zip(panels, sorted(ssgd_star.ALPHAS), strict=True):
            for name in (*ssgd_star.SEARCHED, "centered"):
                for result in _where(results, name, alpha):
                    row = result.row
                    _point(axes, row.noise_std, result, scale.steps)
            for name in ("dpsgd", "ssgd"):
                for result in _where(results, name, alpha):
                    at = _percent(result, scale.steps)
                    axes.axhline(at, color=COLOURS[name], lw=0.9, alpha=0.6)
            axes.set_xscale("log")
            axes.set_xlabel(r"$\sigma_0$")
            axes.set_title(f"inputs in [0, 1], α = {alpha:g}, {scale.steps} steps")
            percent_axis(axes)
        panels[0].set_ylabel("test error, %")
        _legend(figure, NAMES, "lines: one per seed", MARKERS)
    return figure


def _where(
    results: Sequence[Result], name: str, alpha: float, inputs: str = "unit"
) -> list[Result]:
    return [
        result
        for result in results
        if name_of(result) == name and (result.row.alpha, result.row.inputs) == (alpha, inputs)
    ]


def _compared(
    results: Sequence[Result], alpha: float, inputs: str = "unit"
) -> dict[str, list[Result]]:
    """DPSGD, SSGD and each mode of SSGD* at its best sigma_0, those that have runs."""
    rows = [result.row for result in results]
    groups = {name: _where(results, name, alpha, inputs) for name in ("ssgd", "dpsgd")}
    for mode in ssgd_star.SEARCHED:
        best = ssgd_star.best_std(rows, alpha, mode)
        found = _where(results, mode, alpha, inputs)
        groups[mode] = [result for result in found if result.row.noise_std == best]
    return {name: group for name, group in groups.items() if group}


def _ratio(result: Result) -> tuple[np.ndarray, np.ndarray]:
    steps, ratio, weight = alpha_ratio(result.run)
    return steps, running_ratio(ratio * weight, weight, RATIO_WINDOW)


def _spread(result: Result) -> tuple[np.ndarray, np.ndarray]:
    steps, values = monitored(result, "sigma_w2")
    # At the common start it is zero, which a logarithmic axis does not have.
    return steps[values > 0], values[values > 0]


def _strip(axes: "Axes", place: float, group: Sequence[Result], step: int) -> None:
    """The runs of a group side by side around `place`."""
    for i, result in enumerate(group):
        _point(axes, place + 0.03 * (i - (len(group) - 1) / 2), result, step)


def _point(axes: "Axes", x: float, result: Result, step: int) -> None:
    kind, color = result.row.kind_fixed, COLOURS[name_of(result)]
    filled = color if kind in FILLED else "none"
    look = {"color": color, "mfc": filled, "ms": 6, "mew": 1.5, "ls": "none", "clip_on": False}
    axes.plot(x, _percent(result, step), marker=MARKERS[kind], **look)


def _percent(result: Result, step: int) -> float:
    """Test error at `step` in %; that of the final model where a run ended before."""
    error = result.row.error_at[step]
    return 100 * (result.row.final_error if np.isnan(error) else error)


def _legend(
    figure: "Figure",
    names: dict[str, str],
    title: str,
    markers: dict[str, str] | None = None,
) -> None:
    """Colours, and markers if there are any, above the panels."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=COLOURS[name], label=label) for name, label in names.items()]
    for kind, marker in (markers or {}).items():
        filled = "#444444" if kind in FILLED else "none"
        look = {"color": "#444444", "mfc": filled, "mew": 1.5, "ls": "none"}
        handles.append(Line2D([], [], marker=marker, label=kind, **look))
    figure.legend(handles=handles, title=title, loc="outside upper center", ncols=5)
