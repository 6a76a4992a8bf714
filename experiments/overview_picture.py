"""The picture of experiments/README.md: survival over the learning rate, DPSGD beside SSGD."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.figures import new_figure
from experiments.common.scale import Scale
from experiments.common.statistics import share
from experiments.common.survival import Cell, fit
from experiments.fight.methods import COMPLETE, METHODS, SSGD
from experiments.fight.page import measured
from experiments.reread import survivors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {COMPLETE: "dpsgd", SSGD: "ssgd"}
"""The two methods as the study of the paper's Figure 2 names them."""


def survival_curves(scale: Scale) -> dict[str, list[Cell]]:
    """Survivors at each rate by method: of the fight once both are whole, else of Figure 2."""
    made = measured(scale)
    fought = {name: made.curve(name) or [] for name in PAPER}
    if all(fought.values()):
        return fought
    return {name: survivors(scale, of_paper) for name, of_paper in PAPER.items()}


def survival(curves: Mapping[str, list[Cell]]) -> "Figure":
    """Share of runs that survive over alpha, with Wilson's intervals and logistic curves."""
    with new_figure(6.4, 3.4) as figure:
        axes = figure.subplots()
        for place, (name, cells) in enumerate(curves.items()):
            alphas = np.array([cell.alpha for cell in cells])
            found = [share(cell.survived, cell.runs) for cell in cells]
            sides = [[f.value - f.low for f in found], [f.high - f.value for f in found]]
            shifted = alphas + 0.01 * (2 * place - 1)
            values = [f.value for f in found]
            color, label = f"C{place}", METHODS[name].label
            axes.errorbar(shifted, values, yerr=sides, fmt="o", color=color, capsize=3, label=label)
            fine = np.linspace(alphas.min() * 0.75, alphas.max() * 1.1, 100)
            axes.plot(fine, fit(cells).at(fine), color=color)
        seeds = sorted({cell.runs for cells in curves.values() for cell in cells})
        axes.set_title(f"MNIST, n = 5, nB = 2000, 1500 steps; {seeds[-1]} seeds a rate", fontsize=9)
        axes.set_xlabel("learning rate α")
        axes.set_ylabel("share of runs that survive")
        axes.legend()
    return figure
