"""The figure of a study: error, effective rate, spread and noise over steps."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossip.errors import UserError
from gossip.report.axes import (
    COLOURS,
    CROWD,
    GREY,
    Ink,
    curves,
    legend,
    line,
    log_or_note,
    marks,
    note,
    plain,
    positive,
    remark,
)
from gossip.report.rates import gradient_variance, has_noise, learning_rate
from gossip.report.runs import Run, heading, test_error
from gossip.report.series import (
    alpha_ratio,
    first_not_finite,
    last_step,
    smooth_loss,
    smooth_rate,
)
from gossip.storage.folder import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = "gossip.report.gossip"
"""The style sheet, as `matplotlib.style` names it."""

_UNDATED = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata by format: without a date, drawing the same runs again gives the same file."""

_COLOURS = {"dpsgd": "C0", "ssgd": "C1", "ssgd-star": "C2"}
_PARTS = {
    "delta": (r"$\Delta$", "-"),
    "delta_s": (r"$\Delta_S$", "--"),
    "delta2": (r"$\Delta^{(2)}$", ":"),
    "delta2_hessian": (r"$\Delta^{(2)}$, Hessian", "-."),
}
_STYLES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (9, 3)))
"""Of lines, when all colours are used up."""
_MANY = 12
"""Runs that are named above the panels; more are named below, in small letters."""
_ROUNDING = 1e-12
"""Of a variance between learners that is large: what is left of it where they are equal."""
_REMARK = 40
"""Letters for which there is room beside the name of an axis."""
_LOWEST, _HIGHEST = -3.0, 5.0
"""The widest limits of the axis of alpha_e/alpha."""


def study_figure(runs: list[Run]) -> "Figure":
    """Loss and error, alpha_e/alpha, sigma_w^2 and Delta of one or more runs, over steps.

    Where neither alpha_e nor Delta was recorded, learning rate and gradient variance instead.

    Colour tells the runs apart in every panel, the style of a line what it shows; of more runs than
    there are colours, style tells them apart, too. It has no part in pyplot's state: save it with
    `save`, or hand it to a notebook.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(STYLE):
        figure = Figure(layout="constrained")
        panels: tuple[Callable[[Axes, list[Ink]], None], ...]
        panels = (_progress, _rate, _spread, _noise)
        if not has_noise(runs):  # a cheap monitor leaves room for what the rule did
            panels = (_progress, learning_rate, _spread, gradient_variance)
        inks = _inks(runs)
        for axes, panel in zip(figure.subplots(2, 2).flat, panels, strict=True):
            axes.set_xlabel("step")
            panel(axes, inks)
            axes.set_xlim(0, last_step(runs))
        _name_runs(figure, inks, plain(heading(runs)))
    return figure


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure; the ending of `path` says how: .png, .svg or .pdf.

    Raises:
        UserError: the file cannot be written, or there is no such format.
    """
    if path.suffix not in _UNDATED:
        raise UserError(f"cannot draw {path}: a figure ends in one of {', '.join(_UNDATED)}")
    with replacing(path) as partial:
        _save(figure, partial, path.suffix)
    return path


def svg(figure: "Figure") -> str:
    """A figure as an <svg> element to put into a page."""
    text = io.StringIO()
    _save(figure, text, ".svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _save(figure: "Figure", target: Path | io.StringIO, ending: str) -> None:
    from matplotlib import style

    with style.context(STYLE):
        figure.savefig(target, format=ending[1:], metadata=_UNDATED[ending])


def _inks(runs: list[Run]) -> list[Ink]:
    """A colour per algorithm, so that it is the same in all figures, or else one per run."""
    algorithms = [str(run.setting("algorithm")) for run in runs]
    by_algorithm = len(set(algorithms)) == len(runs) and set(algorithms) <= set(_COLOURS)
    inks = []
    for i, (run, algorithm) in enumerate(zip(runs, algorithms, strict=True)):
        ending = "" if run.verdict in ("converged", "unknown") else f", {run.verdict}"
        color = _COLOURS[algorithm] if by_algorithm else f"C{i % COLOURS}"
        style = _STYLES[i // COLOURS % len(_STYLES)]
        inks.append(Ink(run, color, plain(run.label + ending), style))
    return inks


def _name_runs(figure: "Figure", inks: list[Ink], title: str) -> None:
    """What all have in common, and the runs: above the panels, or small and below if many."""
    is_crowd = len(inks) > _MANY
    letters = 8 + max(len(ink.name) for ink in inks)
    columns = max(1, min(len(inks), (140 if is_crowd else 100) // letters))
    if is_crowd:
        figure.suptitle(title, x=0.01, ha="left", fontsize="large")
        figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(inks) // columns))
        title = "to tell so many apart, point at them in the page: --html page.html"
    figure.legend(
        handles=[line(ink.color, ink.name, ls=ink.ls) for ink in inks],
        title=title,
        loc="outside lower left" if is_crowd else "outside upper left",
        alignment="left",
        ncols=columns,
        fontsize="small" if is_crowd else "large",
        title_fontsize="small" if is_crowd else "large",
    )


def _progress(axes: "Axes", inks: list[Ink]) -> None:
    """Panel a: training loss and test error share a logarithmic axis."""
    error_name = test_error([ink.run for ink in inks])
    axes.set_title(f"a  training loss and {error_name}")
    tops = []
    own_styles = len(inks) > COLOURS
    for run, color, _, ls in inks:
        steps, loss, error = (run.column(n) for n in ("step", "train_loss", "test_error"))
        if len(inks) < CROWD:
            axes.plot(steps, positive(loss), color=color, lw=0.6, alpha=0.3, rasterized=True)
        axes.plot(steps, positive(smooth_loss(loss)), color=color, ls=ls, **marks(len(steps)))
        there = np.isfinite(error)
        style = ls if own_styles else (0, (4, 1.5))
        look = {"lw": 1.2, "ls": style, "marker": "o", "ms": 4, "mfc": "white"}
        every = max(1, int(there.sum()) // 12)
        axes.plot(steps[there], positive(error[there]), color=color, markevery=every, **look)
        finite = loss[np.isfinite(loss)]
        tops += [min(finite.max(), 20 * finite[0])] if len(finite) else []
    if not log_or_note(axes):
        return
    if tops and max(tops) > 0:
        axes.set_ylim(top=max(1.5 * max(tops), 10 * axes.get_ylim()[0]))
    legend(
        axes,
        {"training loss": {}, error_name: {"ls": "-" if own_styles else "--", "marker": "o"}},
    )
    for run, color, *_ in inks:
        _mark_divergence(axes, run, color)


def _mark_divergence(axes: "Axes", run: Run, color: str) -> None:
    """A cross at the last finite loss before the first that is not."""
    row = first_not_finite(run)
    if row is None:
        return
    steps, loss = run.column("step"), positive(run.column("train_loss"))
    before = np.flatnonzero(np.isfinite(loss[:row]))
    if len(before):
        bottom, top = axes.get_ylim()
        highest = top / (top / bottom) ** 0.17  # below the legend
        at = steps[before[-1]], np.clip(loss[before[-1]], bottom, highest)
        axes.plot(*at, marker="X", ms=9, color=color, mec="white", zorder=5)
        axes.annotate(
            "not finite", at, (8, 0), textcoords="offset points", color=color, va="center"
        )


def _rate(axes: "Axes", inks: list[Ink]) -> None:
    """Panel b: the learning rate that the training chose for itself.

    Where a model is dead, g is next to nothing and the ratio jumps about without a meaning: the
    axis is made for the runs that converged, if there are any.
    """
    axes.set_title(r"b  effective over nominal learning rate, $\alpha_e/\alpha$")
    low, high = 0.0, 1.2
    any_converged = any(ink.run.verdict == "converged" for ink in inks)
    for run, color, _, ls in inks:
        steps, ratio, weight = alpha_ratio(run)
        if not len(steps):
            continue
        running = smooth_rate(ratio, weight)
        if len(inks) < CROWD:
            axes.plot(steps, ratio, ".", color=color, ms=5, alpha=0.35, mew=0, rasterized=True)
        is_lost = any_converged and run.verdict == "diverged"
        width = 0.8 if is_lost else None
        axes.plot(steps, running, color=color, ls=ls, lw=width, **marks(len(steps)))
        if is_lost:
            continue
        shown = np.concatenate([np.percentile(ratio, [3, 97]), running[np.isfinite(running)]])
        low, high = min(low, shown.min()), max(high, shown.max())
    if not axes.lines:
        note(axes, "not recorded")
        return
    axes.axhline(1, color=GREY, lw=1, ls="--", zorder=1)
    margin = 0.05 * (high - low)
    axes.set_ylim(max(low - margin, _LOWEST), min(high + margin, _HIGHEST))
    cut = [end for end, is_cut in ((_LOWEST, low < _LOWEST), (_HIGHEST, high > _HIGHEST)) if is_cut]
    if cut:
        remark(axes, f"cut off at {' and '.join(f'{end:g}' for end in cut)}")


def _spread(axes: "Axes", inks: list[Ink]) -> None:
    """Panel c: how far the learners are apart."""
    axes.set_title(r"c  variance between the learners, $\sigma_w^2$")
    looks: dict[str, dict[str, Any]] = {"before mixing": {}, "after mixing": {}}
    looks["after mixing"] = {"ls": "--", "lw": 1.2}
    if len(inks) > COLOURS:  # their styles tell runs apart
        del looks["after mixing"]
    least = _rounding([ink.run for ink in inks])
    for name, look in zip(("sigma_w2", "sigma_w2_mixed"), looks.values(), strict=False):
        curves(axes, inks, name, look, least)
    if log_or_note(axes):
        if len(looks) > 1:
            legend(axes, looks)
        _name_zeros(axes, inks, "sigma_w2", least)


def _rounding(runs: list[Run]) -> float:
    """Variances between learners up to here are those of rounding.

    Of float32 weights of length 10 they are some 1e-12. Of large variances it is 1e-12, too: those
    of a run that explodes must not hide the others.
    """
    values = np.concatenate([run.column("sigma_w2") for run in runs])
    values = values[np.isfinite(values) & (values > 0)]
    return _ROUNDING * min(1.0, np.percentile(values, 75)) if len(values) else 0.0


def _noise(axes: "Axes", inks: list[Ink]) -> None:
    """Panel d: the noise of a step, and its part that comes from the spread of the learners."""
    axes.set_title(r"d  noise strength $\Delta$" + (" and its parts" if len(inks) < CROWD else ""))
    parts = list(_PARTS.items())[: 1 if len(inks) >= CROWD else None]
    looks = {}
    for name, (label, ls) in parts:
        look = {"ls": ls} if len(parts) > 1 else {}
        if curves(axes, inks, name, look):
            looks[label] = look
    if log_or_note(axes) and len(looks) > 1:
        legend(axes, looks)


def _name_zeros(axes: "Axes", inks: list[Ink], name: str, least: float) -> None:
    """Say which runs are not drawn because a logarithmic axis has no zero."""
    tops = {ink.run.label: np.nanmax([*ink.run.column(name), -1.0]) for ink in inks}
    zero = {plain(label): top for label, top in tops.items() if 0 <= top <= least}
    if zero:
        names = ", ".join(zero)
        what = "zero but for rounding" if any(zero.values()) else "always zero"
        remark(axes, f"{what}: {names if len(names) < _REMARK else f'{len(zero)} runs'}")
