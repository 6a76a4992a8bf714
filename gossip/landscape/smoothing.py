r"""How smooth the loss is once it is averaged over places about w, as Theorem 1 has it.

.. math::
    \tilde L(w) = \frac1m \sum_k L(w + s_k), \qquad
    l_s(w) = \lambda_{\max}\bigl(\nabla^2 \tilde L(w)\bigr), \qquad
    l_s(w, s) = \frac{\|\nabla \tilde L(w - s) - \nabla \tilde L(w)\|}{\|s\|}

The theorem's places are Gaussian, s_k ~ N(0, sigma_w^2 I), with the learners' own variance per
coordinate, sigma_w^2 = sum_j |dw_j|^2 / ((n - 1) d). DPSGD's own are the learners', s_j = dw_j.
The first l_s is local, and so is the second, over one step s: both are at most the constant that
the theorem bounds by 2 G / sigma_w.

Reference: arXiv 2112.01433, Theorem 1.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from math import inf, nan, sqrt

import torch
from torch import Tensor

from gossip.landscape.curvature import largest
from gossip.landscape.surface import Surface
from gossip.streams import LANDSCAPE, generator

GAUSSIAN = 3
PAIRS = 3
"""Random places, each with its opposite, that an average over Gaussian ones is made of."""


@dataclass(frozen=True)
class Smoothed:
    """The mean of a loss over places about each point: a `Surface` itself."""

    surface: Surface
    shifts: Tensor
    """s_k, [m, d] float64."""

    @property
    def d(self) -> int:
        """See `Surface.d`."""
        return self.surface.d

    def loss(self, row: Tensor) -> float:
        """See `Surface.loss`."""
        return sum(self.surface.loss(row + shift) for shift in self.shifts) / len(self.shifts)

    def gradient(self, row: Tensor) -> Tensor:
        """See `Surface.gradient`."""
        return torch.stack([self.surface.gradient(row + s) for s in self.shifts]).mean(dim=0)

    def curvature(self, row: Tensor, v: Tensor) -> Tensor:
        """See `Surface.curvature`."""
        return torch.stack([self.surface.curvature(row + s, v) for s in self.shifts]).mean(dim=0)


def std_per_coordinate(x: Tensor) -> float:
    """sigma_w of learners [n, d]; 0 of one, or of those that are alike."""
    n, d = x.shape
    deviations = x.double() - x.double().mean(dim=0)
    return sqrt(float(deviations.square().sum()) / ((n - 1) * d)) if n > 1 else 0.0


def gaussian(d: int, std: float, pairs: int, seed: int) -> Tensor:
    """Places s ~ N(0, std^2 I), each with its opposite, [2 pairs, d]."""
    drawn = [generator(seed, LANDSCAPE, GAUSSIAN, k).standard_normal(d) for k in range(pairs)]
    shifts = std * torch.stack([torch.from_numpy(each) for each in drawn])
    return torch.cat([shifts, -shifts])


def gradient_difference(surface: Surface, row: Tensor, step: Tensor) -> float:
    """l_s(w, s); NaN of no step.

    Args:
        surface: the loss.
        row: w, [d].
        step: s, [d].
    """
    length = float(step.norm())
    if length == 0:
        return nan
    return float((surface.gradient(row - step) - surface.gradient(row)).norm()) / length


def smoothed(
    surface: Surface, x: Tensor, lr: float, scales: Collection[float], seed: int
) -> dict[str, dict[str, float]]:
    """How smooth the loss is at the mean model, averaged over nothing, learners, Gaussian places.

    Args:
        surface: the loss.
        x: the learners, [n, d].
        lr: alpha of the step over which gradients are compared, s = alpha grad L(w_a).
        scales: multiples of sigma_w of the Gaussian places.
        seed: of the places, and of the vector that the iteration starts from.

    Returns:
        By "none", "learners" and "gaussian 1", the number being the scale: `sigma`, of the places;
        `bound`, the theorem's 2 G / sigma with the largest gradient of the learners for G, a lower
        estimate; `loss`, `lambda_max` and `difference` over the step. "none" alone where the
        learners are alike.
    """
    mean = x.double().mean(dim=0)
    std = std_per_coordinate(x)
    kinds: dict[str, tuple[float, Surface]] = {"none": (0.0, surface)}
    if std > 0:
        kinds["learners"] = std, Smoothed(surface, x.double() - mean)
        for scale in scales:
            places = gaussian(surface.d, scale * std, PAIRS, seed)
            kinds[f"gaussian {scale:g}"] = scale * std, Smoothed(surface, places)
    bound = 2 * max(float(surface.gradient(row).norm()) for row in x)
    step = lr * surface.gradient(mean)
    return {
        kind: {
            "sigma": sigma,
            "bound": bound / sigma if sigma > 0 else inf,
            "loss": averaged.loss(mean),
            "lambda_max": largest(partial(averaged.curvature, mean), surface.d, seed),
            "difference": gradient_difference(averaged, mean, step),
        }
        for kind, (sigma, averaged) in kinds.items()
    }
