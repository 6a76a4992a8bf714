"""Figure of the study: a run's account over time, drawn from the committed courses."""

from typing import TYPE_CHECKING

import numpy as np

from experiments.account.courses import Courses
from experiments.common.figures import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def account(courses: Courses, alpha: float) -> "Figure":
    """Effective rates and the parts of Delta: the median over the runs, and each run faintly."""
    with new_figure(10.5, 3.8) as figure:
        left, middle, right = figure.subplots(1, 3)
        _draw(left, courses, {"alpha_e": "α_e", "alpha_e_s": "of g_S"}, 1 / alpha)
        left.axhline(1, color=GREY, lw=0.8)
        left.set_title("a  effective rate over α")
        left.set_ylim(-0.6, 2.6)
        parts = {"delta_sgd": "Δ", "delta_s": "Δ_S", "delta2": "Δ⁽²⁾"}
        _draw(middle, courses, parts)
        middle.set_title("b  the parts of Δ")
        forms = {
            "delta2": "Δ⁽²⁾ measured",
            "delta2_hessian": "Hessian, Eq. 5",
            "delta2_hessian_minibatch": "Hessians of mini-batches",
        }
        _draw(right, courses, forms)
        right.set_title("c  Δ⁽²⁾ and its first order")
        for axes in (middle, right):
            axes.set_yscale("log")
        for axes in (left, middle, right):
            axes.set_xlabel("iteration")
            axes.legend(fontsize="small")
    return figure


def _draw(axes: "Axes", courses: Courses, names: dict[str, str], factor: float = 1.0) -> None:
    for place, (name, label) in enumerate(names.items()):
        values = factor * courses.values[name]
        axes.plot(courses.steps, values.T, color=f"C{place}", lw=0.4, alpha=0.25)
        with np.errstate(invalid="ignore"):
            axes.plot(courses.steps, np.nanmedian(values, axis=0), color=f"C{place}", label=label)
