r"""How much the loss rises close by: up the gradient, and in random directions.

.. math::
    S_\rho = L\!\left(w + \rho\, \frac{g}{\|g\|}\right) - L(w), \qquad
    R_s = \mathbf{E}_{u \sim N(0, I)}\, L(w + s \circ u) - L(w)

On a quadratic R_s = (1/2) sum_i s_i^2 H_ii whatever the gradient is, if the expectation is exact.

References: Foret et al., "Sharpness-aware minimization", ICLR 2021, for the first, whose inner
maximum is one step of ascent; Neyshabur et al., "Exploring generalization in deep learning",
NeurIPS 2017, for the second.
"""

from math import nan, sqrt

import torch
from torch import Tensor

from gossip.landscape.curvature import Estimate, mean_of
from gossip.landscape.surface import Surface
from gossip.streams import LANDSCAPE, generator
from gossip.task.layers import Layer

PERTURBATION = 2


def up_the_gradient(surface: Surface, row: Tensor, rho: float) -> float:
    """S_rho; NaN where the gradient is zero.

    Args:
        surface: the loss.
        row: w, [d].
        rho: length of the step.
    """
    g = surface.gradient(row)
    length = float(g.norm())
    if length == 0:
        return nan
    return surface.loss(row + rho / length * g) - surface.loss(row)


def at_random(surface: Surface, row: Tensor, std: Tensor, draws: int, seed: int) -> Estimate:
    """R_s, each draw u with its opposite, so that the gradient has no part in it.

    Args:
        surface: the loss.
        row: w, [d].
        std: s, [d].
        draws: how many pairs.
        seed: of the draws.
    """
    here = surface.loss(row)
    values = []
    for draw in range(draws):
        rng = generator(seed, LANDSCAPE, PERTURBATION, draw)
        step = std * torch.from_numpy(rng.standard_normal(len(row)))
        there = surface.loss(row + step) + surface.loss(row - step)
        values.append(there / 2 - here)
    return mean_of(values)


def relative_std(row: Tensor, layers: tuple[Layer, ...], sigma: float) -> Tensor:
    r"""Deviation of each coordinate, [d]: :math:`\sigma \|w_l\| / \sqrt{D_l}` in tensor l.

    D_l is how many numbers the tensor has. What is measured does not change if a layer is scaled
    and the next one scaled back.
    """
    std = torch.zeros_like(row, dtype=torch.float64)
    for layer in layers:
        part = row[layer.start : layer.stop].double()
        std[layer.start : layer.stop] = sigma * float(part.norm()) / sqrt(len(part))
    return std
