"""Warm-up: a factor that grows to 1."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gossip.errors import UserError, one_of
from gossip.rates.base import RateContext

SHAPES = ("linear", "quadratic")
ORDERS = ("before", "after")
FIXED_SHARE = 0.055
"""T_w / T_1 of AdaScale's and LENA's papers."""
STATE_SHARE = 0.05
"""alpha of LENA, theta_w / T_1."""


class Warm(NamedTuple):
    """A warm-up's word on one step."""

    factor: "float | Tensor"
    """Factor of the warm-up in [0, 1]; one number or one per layer."""
    state: Any


class Warmup(Protocol):
    """Step and scale in, factor out."""

    @property
    def adds_gain(self) -> bool:
        """Whether `Scale.gain` is looked at, and so must be measured."""
        ...

    @property
    def per_layer(self) -> bool:
        """Whether the factors are one per layer, of more than one."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """What it adds to the trace, one column per layer each."""
        ...

    def init(self) -> Any:
        """The state before step 0."""
        ...

    def update(self, t: float, gain: "float | Tensor", state: Any, length: float = 1.0) -> Warm:
        """The factor of a step of this length at time t, see `Span`."""
        ...

    def values(self, state: Any) -> "dict[str, Tensor]":
        """What the state tells the trace: [layers] per column."""
        ...


@dataclass(frozen=True)
class Ramp:
    r"""A factor that depends on time alone.

    .. math:: \mathrm{warm}(t) = s + (1 - s) \min(1, (t + 1) / T_w)^p

    The first step already moves by one increment: with s = 0 no step is wasted at rate 0.
    """

    steps: float
    """T_w in updates; 0: no warm-up."""
    start: float = 0.0
    """s."""
    power: int = 1
    """p."""

    adds_gain = False
    per_layer = False
    columns = ()

    def init(self) -> None:
        """No state."""

    def update(self, t: float, gain: "float | Tensor", state: None, length: float = 1.0) -> Warm:
        """warm(t)."""
        done = min(1.0, (t + length) / self.steps) if self.steps else 1.0
        return Warm(self.start + (1 - self.start) * done**self.power, state)

    def values(self, state: None) -> "dict[str, Tensor]":
        """Nothing: the rate says it all."""
        return {}


class VarianceSums(NamedTuple):
    """State of the state-aware warm-up, [layers] float64 each."""

    total: Tensor
    """S_k."""
    end: Tensor
    """Time, in steps of the first batch, from which on layer k had its full rate; NaN: not yet."""


@dataclass(frozen=True)
class StateAware:
    r"""A layer is warm when its own scales, added up, come to theta_w = alpha T_1.

    .. math::
        \mathrm{warm}_k(t) = \min(1, S_k(t) / \theta_w), \qquad S_k(t) = \sum_{i \le t} gain_k(i)

    Reference: Ko et al. (LENA), WWW 2022, Section 3.2, Algorithm 1, lines 18-20, which adds
    before it compares; Eq. 6 and the authors' code add after, so that the first update has rate
    0: `accumulate="after"`.
    """

    threshold: float
    """theta_w in steps of a single learner."""
    layers: int
    accumulate: str = "before"
    """One of `ORDERS`."""

    adds_gain = True
    columns = ("warmup_state", "warmup_end")

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(ORDERS, self.accumulate, "order of the warm-up's sum")

    @property
    def per_layer(self) -> bool:
        """Whether there is more than one layer."""
        return self.layers > 1

    def init(self) -> VarianceSums:
        """State before step 0: no variance added up yet."""
        zeros = torch.zeros(self.layers, dtype=torch.float64)
        return VarianceSums(zeros, torch.full_like(zeros, torch.nan))

    def update(
        self, t: float, gain: "float | Tensor", state: VarianceSums, length: float = 1.0
    ) -> Warm:
        """warm_k(t), [layers]."""
        total = state.total + gain * length
        used = total if self.accumulate == "before" else state.total
        factor = (used / self.threshold).clamp(max=1.0)
        ended = torch.isnan(state.end) & (used >= self.threshold)
        end = torch.where(ended, torch.tensor(float(t), dtype=torch.float64), state.end)
        return Warm(factor, VarianceSums(total, end))

    def values(self, state: VarianceSums) -> "dict[str, Tensor]":
        """S_k, and the time t at which layer k was first at its full rate, see `Span`."""
        return {"warmup_state": state.total, "warmup_end": state.end}


def no_warmup(context: RateContext) -> Ramp:
    """1 from the first step."""
    return Ramp(0.0)


def fixed(context: RateContext, *, start: float | None = None) -> Ramp:
    """Linear from the base rate to the scaled one; from 0 where nothing is scaled.

    Args:
        context: its nominal scale k makes the start 1/k; its length is 5.5 % of the run if it
            does not say.
        start: the factor to start from instead.

    Raises:
        UserError: the start is not in [0, 1].

    Reference: Goyal et al., arXiv 1706.02677, Section 2.2; AdaScale, Section 4.
    """
    if start is None:
        start = 0.0 if context.nominal is None else min(1.0, 1 / context.nominal)
    if not 0 <= start <= 1:
        raise UserError(f"start={start}: a warm-up starts from a factor in [0, 1]")
    return Ramp(context.length.updates(context.budget, FIXED_SHARE), start)


def state_aware(context: RateContext, *, accumulate: str = "before") -> StateAware:
    """`StateAware` with theta_w = alpha T_1; alpha is 5 % if the context does not say.

    Raises:
        UserError: alpha is outside (0, 1], or an unknown order.
    """
    budget = context.budget
    updates = context.length.updates(budget, STATE_SHARE)
    share = updates / budget.steps
    if not 0 < share <= 1:
        raise UserError(
            f"warm-up state-aware over {updates:g} of {budget.steps:g} updates: alpha, its share "
            "of the run, must be in (0, 1]; give --warmup-share, or other --warmup-steps or "
            "--warmup-epochs"
        )
    return StateAware(share * budget.single_worker_steps, len(context.layers), accumulate)


def legw(context: RateContext, *, shape: str = "linear") -> Ramp:
    """Linear-epoch gradual warm-up: k times the baseline's epochs for a batch k times as large.

    The number of warm-up *updates* is that of the baseline, w_0 N / B_0.

    Raises:
        UserError: no baseline batch, no warm-up epochs of the baseline, or an unknown shape.

    Reference: You et al., "Large-batch training for LSTM and beyond", SC 2019, Algorithm 1.
    """
    one_of(SHAPES, shape, "shape of the warm-up")
    budget, epochs = context.budget, context.length.epochs
    if budget.baseline_batch is None or epochs is None:
        raise UserError(
            "warm-up legw scales a baseline's: give --baseline-batch (its total batch B_0) and "
            "--warmup-epochs (its warm-up w_0 in epochs)"
        )
    updates = epochs * budget.samples / budget.baseline_batch
    return Ramp(updates, 0.0, 2 if shape == "quadratic" else 1)
