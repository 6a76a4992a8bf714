"""The rates of a rule that depend on nothing but time and one constant gradient variance."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

import torch

from gossip.errors import UserError
from gossip.rates import Norms, Product, Span
from gossip.rates.product import Paced, ProductState
from gossip.rates.warmup import VarianceSums
from gossip.task.layers import Layer

ONE_LAYER = (Layer("all", 0, 1, torch.Size([1])),)
"""Stands for the model: without weights all its layers have the same rate."""

_MUCH = 1e12
"""||g_a||^2, so large that no epsilon counts beside it."""


class Iteration(NamedTuple):
    """One iteration: lr = base x scale x warm x decay, x the damper's factor if there is one."""

    iteration: int
    """i, from 1."""
    epoch: float
    """Passes over the training set after it, i n B / N."""
    lr: float
    scale: float
    warm: float
    decay: float
    batch: float
    """B of each learner."""


class Schedule:
    """The run of a rule if every step had the same gradient variance.

    What a rule remembers then grows by the same amount in each step, so that any iteration can be
    told without those before it.

    Args:
        rule: made for `ONE_LAYER`; its layer ratio is left out.
        gain: the gradient variance, 1 (equal gradients) to n (orthogonal ones), if it matters.
        spans: of all steps, where batches grow; the gradients must have no say then.
    """

    def __init__(
        self, rule: Product, gain: float = 1.0, spans: Sequence[Span] | None = None
    ) -> None:
        self.rule, self.gain, self.spans = rule, gain, spans
        self._norms = _norms(gain) if rule.needs_norms else None
        # The first step may differ (AdaScale's gain starts at 1); from the second on all are alike.
        self._states = [rule.init()]
        for t in range(2):
            span = Span(t, t + 1)
            self._states.append(rule.pace(span, self._norms, self._states[t])[0].memory)
        longest = len(spans) if spans else ceil(rule.most_steps)
        self.iterations = self._first(lambda t: self._paced(t).progress >= 1, longest)
        """I, those of the whole run."""
        self.warm_from = self._first(lambda t: self.row(t + 1).warm >= 1, self.iterations + 1)
        """The first iteration at the full rate; beyond `iterations` where there is none."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of a row that are worth showing, beyond iteration and epoch."""
        return Iteration._fields[2:] if self.spans else Iteration._fields[2:-1]

    def numbers(self, iteration: int) -> tuple[float, ...]:
        """The `columns` of iteration 1, 2, ...; none beyond the last."""
        if iteration > self.iterations:
            return ()
        return self.row(iteration)[2 : 2 + len(self.columns)]

    def epoch(self, iteration: int) -> float:
        """Passes over the training set after iteration 1, 2, ..., also of those beyond the last."""
        if self.spans:
            return self._span(iteration - 1).end / self.rule.budget.steps_per_epoch
        return iteration / self.rule.budget.steps_per_epoch

    def row(self, iteration: int) -> Iteration:
        """Iteration 1, 2, ..."""
        paced, span = self._paced(iteration - 1), self._span(iteration - 1)
        return Iteration(
            iteration,
            self.epoch(iteration),
            float(paced.lr),
            float(paced.scale.factor),
            float(paced.warm),
            paced.decay,
            round(span.length * self.rule.budget.batch),
        )

    def _span(self, t: int) -> Span:
        if self.spans:
            return self.spans[min(t, len(self.spans) - 1)]
        return Span(t, t + 1)

    def _paced(self, t: int) -> Paced:
        return self.rule.pace(self._span(t), self._norms, self._state(t))[0]

    def _state(self, t: int) -> ProductState:
        if self.spans:  # nothing is remembered: no gradient has a say
            return self._states[0]
        if t < 2:
            return self._states[t]
        return _ahead(self._states[1], self._states[2], t - 1)

    def _first(self, holds: Callable[[int], bool], limit: int) -> int:
        """The number (from 1) of the first step t < limit for which `holds`, or else `limit`."""
        return min(bisect_left(range(limit), True, key=holds) + 1, max(1, limit))


def courses(rule: Product, spans: Sequence[Span] | None = None) -> dict[str, Schedule]:
    """The one course of a rule, named ""; or the two that bound it where gradients have a say.

    Raises:
        UserError: gradients have a say, and batches grow.
    """
    if spans and rule.needs_norms:
        raise UserError(
            "the gradients decide this rate, and how far it comes depends on the batches that "
            "grow: leave --damping away, or choose --scaling none, linear or sqrt"
        )
    if spans:
        return {"": Schedule(rule, spans=spans)}
    if not rule.needs_norms or rule.budget.learners == 1:
        return {"": Schedule(rule)}
    return {"equal": Schedule(rule), "orthogonal": Schedule(rule, float(rule.budget.learners))}


def _norms(gain: float) -> Norms:
    one = torch.full((1,), _MUCH, dtype=torch.float64)
    return Norms(gain * one, one)


def _ahead(one: ProductState, two: ProductState, steps: int) -> ProductState:
    """The memory that is as many steps after `one`, `two` being one step after it."""
    warmup = two.warmup
    if isinstance(warmup, VarianceSums):
        growth = warmup.total - one.warmup.total
        warmup = warmup._replace(total=one.warmup.total + steps * growth)
    return two._replace(warmup=warmup, tau=one.tau + steps * (two.tau - one.tau))
