"""The figure of a study: error, effective rate, spread and noise over steps."""

import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossip.errors import UserError
from gossip.report.axes import (
    CROWD,
    GREY,
    Ink,
    curves,
    legend,
    line,
    log_or_note,
    note,
    plain,
    positive,
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


def study_figure(runs: list[Run]) -> "Figure":
    """Loss and error, alpha_e/alpha, sigma_w^2 and Delta of one or more runs, over steps.

    Where neither alpha_e nor Delta was recorded, learning rate and gradient variance instead.

    Colour tells the runs apart in every panel, the style of a line what it shows. It has no part
    in pyplot's state: save it with `save`, or hand it to a notebook.
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
            panel(axes, inks)
            axes.set_xlabel("step")
            axes.set_xlim(0, last_step(runs))
        figure.legend(
            handles=[line(ink.color, ink.name) for ink in inks],
            title=plain(heading(runs)),
            loc="outside upper left",
            alignment="left",
            ncols=max(1, min(len(inks), 100 // (8 + max(len(ink.name) for ink in inks)))),
            fontsize="large",
            title_fontsize="large",
        )
    return figure


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure; the ending of `path` says how: .png, .svg or .pdf.

    Raises:
        UserError: the file cannot be written, or there is no such format.
    """
    if path.suffix not in _UNDATED:
        raise UserError(f"cannot draw {path}: a figure ends in one of {', '.join(_UNDATED)}")
    # Under another name first: a full disk leaves the picture that there was, and not half of one.
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _save(figure, partial, path.suffix)
        partial.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
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
        color = _COLOURS[algorithm] if by_algorithm else f"C{i}"
        inks.append(Ink(run, color, plain(run.label + ending)))
    return inks


def _progress(axes: "Axes", inks: list[Ink]) -> None:
    """Panel a: training loss and test error share a logarithmic axis."""
    error_name = test_error([run for run, _, _ in inks])
    axes.set_title(f"a  training loss and {error_name}")
    tops = []
    for run, color, _ in inks:
        steps, loss, error = (run.column(n) for n in ("step", "train_loss", "test_error"))
        if len(inks) < CROWD:
            axes.plot(steps, positive(loss), color=color, lw=0.6, alpha=0.3, rasterized=True)
        axes.plot(steps, positive(smooth_loss(loss)), color=color)
        there = np.isfinite(error)
        look = {"lw": 1.2, "ls": (0, (4, 1.5)), "marker": "o", "ms": 4, "mfc": "white"}
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
        {"training loss": {}, error_name: {"ls": "--", "marker": "o"}},
    )
    for run, color, _ in inks:
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
    any_converged = any(run.verdict == "converged" for run, _, _ in inks)
    for run, color, _ in inks:
        steps, ratio, weight = alpha_ratio(run)
        if not len(steps):
            continue
        running = smooth_rate(ratio, weight)
        if len(inks) < CROWD:
            axes.plot(steps, ratio, ".", color=color, ms=5, alpha=0.35, mew=0, rasterized=True)
        is_lost = any_converged and run.verdict == "diverged"
        axes.plot(steps, running, color=color, lw=0.8 if is_lost else None)
        if is_lost:
            continue
        shown = np.concatenate([np.percentile(ratio, [3, 97]), running[np.isfinite(running)]])
        low, high = min(low, shown.min()), max(high, shown.max())
    if not axes.lines:
        note(axes, "not recorded")
        return
    axes.axhline(1, color=GREY, lw=1, ls="--", zorder=1)
    margin = 0.05 * (high - low)
    axes.set_ylim(max(low - margin, -3), min(high + margin, 5))


def _spread(axes: "Axes", inks: list[Ink]) -> None:
    """Panel c: how far the learners are apart."""
    axes.set_title(r"c  variance between the learners, $\sigma_w^2$")
    looks = {"before mixing": {}, "after mixing": {"ls": "--", "lw": 1.2}}
    for name, look in zip(("sigma_w2", "sigma_w2_mixed"), looks.values(), strict=True):
        curves(axes, inks, name, look)
    if log_or_note(axes):
        legend(axes, looks)
        _name_zeros(axes, inks, "sigma_w2")


def _noise(axes: "Axes", inks: list[Ink]) -> None:
    """Panel d: the noise of a step, and its part that comes from the spread of the learners."""
    axes.set_title(r"d  noise strength $\Delta$" + (" and its parts" if len(inks) < CROWD else ""))
    parts = list(_PARTS.items())[: 1 if len(inks) >= CROWD else None]
    looks = {}
    for name, (label, ls) in parts:
        if curves(axes, inks, name, {"ls": ls}):
            looks[label] = {"ls": ls}
    if log_or_note(axes) and len(looks) > 1:
        legend(axes, looks)


def _name_zeros(axes: "Axes", inks: list[Ink], name: str) -> None:
    """Say which runs are not drawn because a logarithmic axis has no zero."""
    zero = [plain(ink.run.label) for ink in inks if np.nanmax([*ink.run.column(name), -1.0]) == 0]
    if zero:
        text = f"always zero: {', '.join(zero)}"
        axes.text(0.02, 0.03, text, transform=axes.transAxes, color=GREY, fontsize="small")
