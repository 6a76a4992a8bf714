"""Figure of the study, drawn from its committed table."""

from typing import TYPE_CHECKING

from experiments.common.figures import GREY, new_figure
from experiments.smoothness.groups import Measured
from experiments.smoothness.plan import ARMS
from gossip.report.axes import log_or_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AVERAGES = {
    "learners": "the learners' places",
    "gaussian1": "N(0, σ_w²)",
    "gaussian10": "N(0, (10 σ_w)²)",
    "gaussian30": "N(0, (30 σ_w)²)",
}


def smoothness(made: Measured) -> "Figure":
    """Left: averaged over not averaged. Right: the edge of stability, for each rate."""
    alphas = made.size.alphas
    with new_figure(3.4 * (1 + len(alphas)), 3.4) as figure:
        first, *others = figure.subplots(1, 1 + len(alphas))
        for place, (kind, label) in enumerate(AVERAGES.items()):
            _smoothed(first, made, kind, label, f"C{place}")
        first.axhline(1, color=GREY, lw=0.8)
        first.set_title(f"λ_max averaged / not, α = {made.size.alpha:g}")
        first.legend(fontsize="small")
        for axes, alpha in zip(others, alphas, strict=True):
            for place, (arm, label) in enumerate(ARMS.items()):
                _edge(axes, made, alpha, arm, label, f"C{place}")
            axes.axhline(1, color=GREY, lw=0.8)
            axes.set_title(f"α λ_max/2 at w_a, α = {alpha:g}")
        others[0].legend(fontsize="small")
        for axes in (first, *others):
            axes.set_xlim(made.size.at[0] / 1.5, made.size.at[-1] * 1.5)
            axes.set_xscale("log")
            log_or_note(axes)
            axes.set_xlabel("step")
    return figure


def _smoothed(axes: "Axes", made: Measured, kind: str, label: str, color: str) -> None:
    name = "lambda_max"
    found = {
        step: made.ratio(made.size.alpha, f"{kind}_{name}", f"none_{name}", (step,))
        for step in made.size.at
    }
    there = {step: estimate for step, estimate in found.items() if estimate is not None}
    values = [estimate.value for estimate in there.values()]
    ends = [
        [e.value - e.low for e in there.values()],
        [e.high - e.value for e in there.values()],
    ]
    axes.errorbar(list(there), values, yerr=ends, fmt="o-", ms=3, lw=1, capsize=2, color=color,
                  label=label)  # fmt: skip


def _edge(axes: "Axes", made: Measured, alpha: float, arm: str, label: str, color: str) -> None:
    """Each run a dot at each step: filled if it survived."""
    axes.plot([], [], "o", color=color, label=label)
    axes.plot([], [], "x", color=color, label=f"{label}, died")
    for step in made.size.at:
        for row in made.at(alpha, arm, step):
            mark = "o" if row.survived else "x"
            aside = 0.95 if color == "C0" else 1.05
            axes.plot(step * aside, alpha * row.none_lambda_max / 2, mark, ms=3, color=color)
