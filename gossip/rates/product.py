"""The rule of all rules: base x scaling x warm-up x decay x layer ratio."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import floor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossip.rates.base import Budget, Norms, Observation, Rated, Span, norms
from gossip.rates.decay import Decay
from gossip.rates.ratio import LayerRatio
from gossip.rates.scaling import ScaleFactor, Scaling
from gossip.rates.variance import GradientVariance, NormAverages, Variance
from gossip.rates.warmup import Warmup
from gossip.task.layers import Layer


class ProductState(NamedTuple):
    """State of a `Product`: that of its parts, and tau."""

    averages: NormAverages
    scaling: Any
    warmup: Any
    tau: float = 0.0
    """Sum of the gains, where a scaling counts time in them."""


class Paced(NamedTuple):
    """One step without the layer ratio: what a schedule can tell before there are weights."""

    lr: "float | Tensor"
    memory: ProductState
    progress: float
    scale: ScaleFactor
    warm: "float | Tensor"
    decay: float


@dataclass(frozen=True, kw_only=True)
class Product:
    r"""A product of independent parts.

    .. math::
        \alpha_k(t) = \alpha_0 \cdot decay(p) \cdot scale_k(t) \cdot warm_k(t) \cdot r_k(t)

    with p = t / T, or tau / (S T) for AdaScale in its own time. Every factor is one number or one
    per layer k; r, under DPSGD, is one per learner too.

    Reference: LENA, WWW 2022, Section 4 (Table 2 is such a product of three by three).
    """

    base: float
    """alpha_0."""
    scaling: Scaling
    warmup: Warmup
    decay: Decay
    ratio: LayerRatio | None
    variance: GradientVariance
    budget: Budget
    layers: tuple[Layer, ...]

    @property
    def needs_norms(self) -> bool:
        """Whether a part looks at single gradients."""
        return self.scaling.needs_norms or self.warmup.adds_gain

    @property
    def counts_tau(self) -> bool:
        """Whether the run ends by tau, after up to S times as many steps."""
        return self.scaling.counts_tau

    @property
    def per_layer(self) -> bool:
        """Whether a part has a factor for each layer."""
        return self.ratio is not None or self.scaling.per_layer or self.warmup.per_layer

    @property
    def most_steps(self) -> float:
        """Updates at most: those of the budget, or of the baseline's batch, each worth a gain."""
        return self.budget.steps * (self.scaling.nominal if self.counts_tau else 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """What this product adds to the trace."""
        whole = ["scale", "warm"] + ["tau"] * self.counts_tau + ["grad_var"] * self.needs_norms
        by_layer = list(self.warmup.columns)
        if self.needs_norms:
            by_layer += ["lr", "grad_var"]
        if self.ratio is not None:
            by_layer += ["lr", "layer_ratio"]
        names = [layer.name for layer in self.layers]
        columns = (f"{column}/{name}" for column in dict.fromkeys(by_layer) for name in names)
        return (*whole, *columns)

    def init(self) -> ProductState:
        """Before step 0."""
        return ProductState(self.variance.init(), self.scaling.init(), self.warmup.init())

    def update(self, observation: Observation, state: ProductState) -> Rated:
        """alpha_k(t)."""
        t, measured = observation.step, None
        span = observation.span or Span(t, t + 1)
        if self.needs_norms:
            measured = norms(observation, self.layers)
            measured = measured.of_first_batch(span.length, self.budget.learners)
        paced, variance = self.pace(span, measured, state)
        lr, ratio = paced.lr, None
        if self.ratio is not None:
            ratio = self.ratio(observation.x, observation.direction, self.layers)
            # One per layer where one row is stepped for all. A row for each learner keeps both, so
            # that what the optimizer keeps looks the same however many rows a process hosts.
            ratio = ratio.squeeze(0) if observation.mean is not None else ratio
            lr = paced.lr * ratio
        values = partial(self._values, paced, variance, lr, ratio)
        return Rated(lr, paced.memory, paced.progress, values)

    def pace(
        self, span: Span, measured: Norms | None, state: ProductState
    ) -> tuple[Paced, Variance | None]:
        """The rate of a step before the layer ratio, from norms alone."""
        variance, averages = None, state.averages
        if measured is not None:
            variance, averages = self.variance.update(measured, averages)
        scale, scaling = self.scaling.update(span.start, variance, state.scaling)
        gain: float | Tensor = 1.0
        if scale.gain is not None:
            gain = scale.gain
        elif variance is not None:
            gain = min(max(variance.whole, 1.0), float(self.budget.learners))
        warm, warmup = self.warmup.update(span.start, gain, state.warmup, span.length)
        tau = state.tau + (scale.tau or 0.0) * span.length
        done, progress = span.start / self.budget.steps, span.end / self.budget.steps
        if scale.tau is not None:
            done, progress = floor(state.tau) / self.most_steps, tau / self.most_steps
        decay = self.decay(done)
        lr = self.base * decay * scale.factor * warm
        if span.lr_factor != 1:
            lr = lr * span.lr_factor
        memory = ProductState(averages, scaling, warmup, tau)
        return Paced(lr, memory, progress, scale, warm, decay), variance

    def _values(
        self,
        paced: Paced,
        variance: Variance | None,
        lr: "float | Tensor",
        ratio: Tensor | None,
    ) -> Mapping[str, float]:
        """What the trace keeps; of several learners, those of the first."""
        values = {"scale": _mean(paced.scale.factor), "warm": _mean(paced.warm)}
        if paced.scale.tau is not None:
            values["tau"] = paced.memory.tau
        by_layer = self.warmup.values(paced.memory.warmup)
        if variance is not None:
            values["grad_var"] = variance.whole
            by_layer |= {"lr": _by_layer(lr, len(self.layers)), "grad_var": variance.layers}
        if ratio is not None:
            by_layer |= {"lr": _by_layer(lr, len(self.layers)), "layer_ratio": ratio}
        for column, numbers in by_layer.items():
            first = numbers[0] if numbers.ndim == 2 else numbers
            for layer, number in zip(self.layers, first.tolist(), strict=True):
                values[f"{column}/{layer.name}"] = number
        return values


def _mean(factor: "float | Tensor") -> float:
    return float(torch.as_tensor(factor, dtype=torch.float64).mean())


def _by_layer(lr: "float | Tensor", layers: int) -> Tensor:
    rates = torch.as_tensor(lr, dtype=torch.float64)
    return rates if rates.ndim else rates.expand(layers)
