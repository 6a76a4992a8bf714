"""Scaling: what a larger batch multiplies the learning rate by."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from gossip.rates.base import RateContext
from gossip.rates.variance import Variance


class ScaleFactor(NamedTuple):
    """A scaling's word on one step."""

    factor: "float | Tensor"
    """What the rate is multiplied by: one number or one per layer."""
    gain: "float | Tensor | None"
    """What the state-aware warm-up adds up; None: the whole model's gradient variance."""
    tau: float | None = None
    """Scale-invariant steps that this step is worth; None: time is not counted in them."""


class Scaling(Protocol):
    """Batch size in, factor of the learning rate out."""

    @property
    def needs_norms(self) -> bool:
        """Whether `update` is given the gradient variance."""
        ...

    @property
    def counts_tau(self) -> bool:
        """Whether the run's time is tau, the sum of the gains."""
        ...

    @property
    def per_layer(self) -> bool:
        """Whether the factors are one per layer, of more than one."""
        ...

    @property
    def nominal(self) -> float:
        """The factor aimed at, from which a warm-up that starts at the base rate starts."""
        ...

    def init(self) -> Any:
        """The state before step 0."""
        ...

    def update(self, t: float, variance: Variance | None, state: Any) -> tuple[ScaleFactor, Any]:
        """The scale at time t, see `Span`, and the next state."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same factor at every step."""

    nominal: float

    needs_norms = False
    counts_tau = False
    per_layer = False

    def init(self) -> None:
        """No state."""

    def update(self, t: float, variance: Variance | None, state: None) -> tuple[ScaleFactor, None]:
        """The factor."""
        return ScaleFactor(self.nominal, None), state


def no_scaling(context: RateContext) -> Constant:
    """1: the base rate, whatever the batch."""
    return Constant(1.0)


def linear(context: RateContext) -> Constant:
    """The factor k = n B / B_0 (Goyal et al., arXiv 1706.02677, Section 2.1)."""
    return Constant(context.budget.scale)


def square_root(context: RateContext) -> Constant:
    """sqrt(k), as in LEGW and DATE (You et al., SC 2019, Section 3)."""
    return Constant(sqrt(context.budget.scale))
