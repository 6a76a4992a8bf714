r"""The effective learning rate alpha_e and the motion Delta that it leaves over.

The step of the mean model is split along and across the gradient g of the training loss there:

.. math:: \Delta w_a = w_a(t+1) - w_a(t) = -\alpha_e\, g + \eta_\perp, \qquad \eta_\perp \cdot g = 0

Reference: Zhang et al., "Loss landscape dependent self-adjusting learning rates in decentralized
stochastic gradient descent", arXiv 2112.01433, Section 2.2 and Eq. 4. There the step is
-alpha g_a, which is Delta w_a for plain SGD and doubly stochastic W. Here Delta w_a is what the
mean model really did, so that the same definitions hold for any optimizer; momentum, weight
decay and Adam's scaling are then part of alpha_e. The `_sgd` quantities keep the paper's form.
"""

from math import nan
from typing import NamedTuple

from torch import Tensor

TINY = 1e-30
"""Below this ||g||^2 there is no direction to measure along."""


class MeanModelGradient(NamedTuple):
    """g, the gradient of the training loss at the mean model: exact, or estimated on a sample."""

    vector: Tensor
    """g or its estimate, [d] float64."""
    square: float
    """Estimate of ||g||^2 that the sampling noise does not inflate; may be negative."""
    excess: float
    """What the noise added, ||vector||^2 - square: 0 if exact."""
    loss: float
    """L(w_a) on the same samples."""
    samples: int
    """How many samples it was measured on."""

    @property
    def vanishes(self) -> bool:
        """Whether the gradient is zero for all purposes."""
        return self.square + self.excess < TINY

    def component_of(self, v: Tensor) -> float:
        r""":math:`v \cdot g / \|g\|^2`, the multiple of g that v [d] contains.

        NaN where g vanishes, or where its estimated square is not positive: the sample is then
        too small to tell g from noise.
        """
        if self.vanishes or self.square <= 0:
            return nan
        return float(v @ self.vector) / self.square


def alpha_e(displacement: Tensor, g: MeanModelGradient) -> float:
    r"""Effective learning rate of any optimizer.

    .. math:: \alpha_e = -\frac{\Delta w_a \cdot g}{\|g\|^2}

    May be negative. Over a window, :math:`\sum \alpha_e \|g\|^2 / \sum \|g\|^2` is steadier than
    the mean of alpha_e.

    Args:
        displacement: Delta w_a = w_a(t+1) - w_a(t), [d].
        g: gradient at w_a(t).

    Returns:
        alpha_e in the units of the learning rate; NaN where g has no direction.
    """
    return -g.component_of(displacement)


def alpha_e_sgd(lr: float, g_a: Tensor, g: MeanModelGradient) -> float:
    r"""Effective learning rate of plain SGD with these gradients, as in the paper.

    .. math:: \alpha_e = \alpha\, \frac{g_a \cdot g}{\|g\|^2}

    The same as `alpha_e` for SGD without momentum or weight decay.

    Args:
        lr: alpha.
        g_a: mean of the raw stochastic gradients, [d].
        g: gradient at the mean model.
    """
    return lr * g.component_of(g_a)


def delta(displacement: Tensor, g: MeanModelGradient) -> float:
    r"""Strength of the landscape-dependent noise, in squared units of the weights.

    .. math::
        \Delta = \|\eta_\perp\|^2 = \|\Delta w_a\|^2 - \alpha_e^2 \|g\|^2, \qquad
        \eta_\perp = \Delta w_a + \alpha_e\, g

    Computed from the vector, never as the difference: in float32 that was off by up to 4e-5.
    Where g vanishes, nothing is along it and Delta = ||Delta w_a||^2.
    """
    return perpendicular_product(displacement, displacement, g)


def perpendicular_product(u: Tensor, v: Tensor, g: MeanModelGradient) -> float:
    r"""Inner product of two vectors [d] without their parts along g.

    .. math:: \langle P_\perp u, P_\perp v \rangle, \qquad P_\perp = I - \frac{g g^T}{\|g\|^2}

    With an estimated g, the length that noise adds to it is taken out again, so that the result
    is bilinear and equals :math:`u \cdot v - (u \cdot g)(v \cdot g) / \|g\|^2` for every source
    of g.
    """
    if g.vanishes:
        return float(u @ v)
    along_u, along_v = g.component_of(u), g.component_of(v)
    across = (u - along_u * g.vector) @ (v - along_v * g.vector)
    return float(across) - along_u * along_v * g.excess
