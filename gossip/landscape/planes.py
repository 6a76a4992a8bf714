"""Lines and planes through the weights, and the loss on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossip.landscape.surface import Surface
from gossip.streams import LANDSCAPE, generator
from gossip.task.layers import Layer

DIRECTION = 3
BETWEEN = 11
"""Points of a line on which the highest is looked for, its ends among them."""
TINY = 1e-10
"""Added to the norm of a direction's filter before it is divided by it."""
RANDOM, THROUGH = "filter-normalised", "through the learners"
"""Planes that are measured, as a landscape's file calls them."""
UNITS = {RANDOM: "multiples of the filters' norms", THROUGH: "units of the weights"}
"""Of a plane's axes."""


@dataclass(frozen=True)
class Plane:
    """w + a d_1 + b d_2."""

    origin: Tensor
    """w, [d] float64."""
    directions: tuple[Tensor, Tensor]
    """Each [d] float64."""

    def at(self, a: float, b: float) -> Tensor:
        """The weights there, [d]."""
        return self.origin + a * self.directions[0] + b * self.directions[1]

    def place(self, row: Tensor) -> tuple[float, float]:
        """(a, b) of the point of the plane that is nearest to `row` [d]."""
        basis = torch.stack(self.directions, dim=1)
        found = torch.linalg.lstsq(basis, (row.double() - self.origin).unsqueeze(1)).solution
        return float(found[0]), float(found[1])


def through(x: Tensor) -> Plane | None:
    """The plane through the mean of the rows of `x` [n, d] which is closest to all of them.

    Its directions are the first two principal components of the deviations, of unit length. Three
    learners lie in it.

    Returns:
        None: the rows lie on a line.
    """
    origin = x.double().mean(dim=0)
    deviations = x.double() - origin
    if len(x) < 3:
        return None
    _, sizes, components = torch.linalg.svd(deviations, full_matrices=False)
    if sizes[1] <= 1e-6 * sizes[0] or sizes[0] == 0:
        return None
    return Plane(origin, (components[0], components[1]))


def at_random(row: Tensor, layers: tuple[Layer, ...], seed: int) -> Plane:
    """The plane through `row` [d] in two Gaussian directions, each filter as long as that of `row`.

    A filter is a row of a tensor: all weights into one unit. Tensors of one dimension (biases,
    BatchNorm) do not move. Functions that differ by the scales of their layers alone then look
    alike.

    Reference: Li et al., "Visualizing the loss landscape of neural nets", NeurIPS 2018.
    """
    drawn = [
        torch.from_numpy(generator(seed, LANDSCAPE, DIRECTION, i).standard_normal(len(row)))
        for i in range(2)
    ]
    first, second = (filter_normalised(each, row.double(), layers) for each in drawn)
    return Plane(row.double(), (first, second))


def filter_normalised(direction: Tensor, row: Tensor, layers: tuple[Layer, ...]) -> Tensor:
    """The direction [d] with each of its filters as long as that of `row` [d]."""
    scaled = torch.zeros_like(direction)
    for layer in layers:
        if len(layer.shape) < 2:
            continue
        part = slice(layer.start, layer.stop)
        own, like = (v[part].reshape(layer.shape[0], -1) for v in (direction, row))
        factor = like.norm(dim=1, keepdim=True) / (own.norm(dim=1, keepdim=True) + TINY)
        scaled[part] = (factor * own).reshape(-1)
    return scaled


def on_grid(surface: Surface, plane: Plane, xs: Sequence[float], ys: Sequence[float]) -> np.ndarray:
    """The loss at (a, b) = (xs[k], ys[i]), [len(ys), len(xs)]."""
    return np.array([[surface.loss(plane.at(a, b)) for a in xs] for b in ys])


def on_line(surface: Surface, start: Tensor, end: Tensor, at: Sequence[float]) -> np.ndarray:
    """The loss at start + s (end - start) for each s of `at`, [len(at)]."""
    start, end = start.double(), end.double()
    return np.array([surface.loss(start + s * (end - start)) for s in at])


def barrier(surface: Surface, start: Tensor, end: Tensor) -> float:
    r"""How far the loss between two points rises above the straight line between their losses.

    .. math:: \max_{0 \le s \le 1} L((1 - s) u + s v) - (1 - s) L(u) - s L(v)

    over `BETWEEN` values of s; 0 where the loss is convex between them, and of one point.

    Reference: Frankle et al., "Linear mode connectivity and the lottery ticket hypothesis", ICML
    2020, for the rise above the mean of the ends.
    """
    if torch.equal(start, end):
        return 0.0
    at = np.linspace(0.0, 1.0, BETWEEN)
    found = on_line(surface, start, end, at.tolist())
    return float(np.max(found - (1 - at) * found[0] - at * found[-1]))


def farthest(x: Tensor) -> tuple[int, int]:
    """The two rows of `x` [n, d] with the largest distance."""
    distances = torch.cdist(x.double(), x.double())
    i, j = divmod(int(distances.argmax()), len(x))
    return min(i, j), max(i, j)
