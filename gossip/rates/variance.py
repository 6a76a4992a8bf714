"""Gradient variance: how much larger single gradients are than their mean."""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from gossip.errors import UserError, one_of
from gossip.rates.base import Norms, RateContext

AVERAGES = ("debiased", "zero")
"""Moving averages that start from zero, corrected for that or not."""


GRANULARITIES = ("tensor", "module")
"""What a layer is: a parameter tensor, or all those of one module."""


class Variance(NamedTuple):
    """Gradient variance of one step; 1 where all gradients are equal, n where orthogonal."""

    norms: Norms
    layers: Tensor
    """Gradient variance of each layer or its group, [layers], not clipped."""
    whole: float
    """Gradient variance of the whole model, not clipped."""


class NormAverages(NamedTuple):
    """Moving averages of `Norms`, [layers] float64, as they are kept: not corrected."""

    squares: Tensor
    square_of_mean: Tensor
    weight: float
    """1 - theta^t, what the numbers averaged so far weigh."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientVariance:
    r"""LENA's gradient variance.

    .. math::
        \mathrm{grad\_var}_k = \frac{\overline{(1/n)\sum_i \|g_{i,k}\|^2} + \epsilon}
                                    {\overline{\|g_{a,k}\|^2} + \epsilon}

    The overlines are exponential moving averages with theta = max(1 - n/1000, 0). Of the whole
    model: the same with both norms summed over its layers.

    Reference: Ko et al. (LENA), WWW 2022, Eqs. 4 and 8. Deviation: averages are corrected
    for their start at zero, without which epsilon rules the first steps (`average="zero"` is
    the authors' code).
    """

    learners: int
    """n."""
    groups: Tensor
    """Group of each layer, [layers] int64: the layers of a group share one variance."""
    epsilon: float = 1e-6
    average: str = "debiased"
    """One of `AVERAGES`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(AVERAGES, self.average, "average")
        if not 0 <= self.epsilon < inf:
            raise UserError(f"epsilon={self.epsilon}: it must be a number from 0 up")

    @property
    def theta(self) -> float:
        """Decay of the moving averages."""
        return max(1 - self.learners / 1000, 0.0)

    def init(self) -> NormAverages:
        """State before step 0: no gradient seen yet."""
        zeros = torch.zeros(len(self.groups), dtype=torch.float64)
        return NormAverages(zeros, zeros, 0.0)

    def update(self, new: Norms, state: NormAverages) -> tuple[Variance, NormAverages]:
        """Take in the norms of one step; norms that are not finite leave the averages alone."""
        if new.finite:
            theta = self.theta
            state = NormAverages(
                theta * state.squares + (1 - theta) * new.squares,
                theta * state.square_of_mean + (1 - theta) * new.square_of_mean,
                theta * state.weight + (1 - theta),
            )
        weight = (state.weight or 1.0) if self.average == "debiased" else 1.0
        top, bottom = state.squares / weight, state.square_of_mean / weight
        layers = _ratio(self._grouped(top) + self.epsilon, self._grouped(bottom) + self.epsilon)
        whole = _ratio(top.sum() + self.epsilon, bottom.sum() + self.epsilon)
        return Variance(new, layers, float(whole)), state

    def _grouped(self, squares: Tensor) -> Tensor:
        """Sums over the group of each layer, [layers]."""
        return torch.zeros_like(squares).index_add_(0, self.groups, squares)[self.groups]


def _ratio(top: Tensor, bottom: Tensor) -> Tensor:
    """Top / bottom, 1 where no learner has a gradient."""
    return torch.where(top > 0, top / bottom, 1.0)


def gradient_variance(
    context: RateContext,
    *,
    granularity: str = "tensor",
    epsilon: float = 1e-6,
    average: str = "debiased",
) -> GradientVariance:
    """`GradientVariance` for a model's layers.

    Raises:
        UserError: an unknown choice.
    """
    one_of(GRANULARITIES, granularity, "granularity")
    names = [layer.name for layer in context.layers]
    if granularity == "module":
        names = [name.rpartition(".")[0] for name in names]
    numbers = {name: k for k, name in enumerate(dict.fromkeys(names))}
    groups = torch.tensor([numbers[name] for name in names])
    return GradientVariance(
        learners=context.budget.learners, groups=groups, epsilon=epsilon, average=average
    )
