"""The rates of a rule that depend on nothing but time and one constant gradient variance."""

from bisect import bisect_left
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import torch

from gossip.rates import Norms, Product, Span
from gossip.rates.product import Memory, Paced
from gossip.rates.warmup import Sums
from gossip.task.layers import Layer

ONE_LAYER = (Layer("all", 0, 1, torch.Size([1])),)
"""Stands for the model: without weights all its layers have the same rate."""

_MUCH = 1e12
"""||g_a||^2, so large that no epsilon counts beside it."""


class Row(NamedTuple):
    """One iteration: lr = base x scale x warm x decay."""

    iteration: int
    """i, from 1."""
    epoch: float
    """i n B / N, passes over the training set after it."""
    lr: float
    scale: float
    warm: float
    decay: float


class Course:
    """The run of a rule if every step had the same gradient variance.

    What a rule remembers then grows by the same amount in each step, so that any iteration can be
    told without those before it.

    Args:
        rule: made for `ONE_LAYER`; its layer ratio is left out.
        gain: the gradient variance, 1 (equal gradients) to n (orthogonal ones), if it matters.
    """

    def __init__(self, rule: Product, gain: float = 1.0) -> None:
        self.rule, self.gain = rule, gain
        self._norms = _norms(gain) if rule.needs_norms else None
        # The first step may differ (AdaScale's gain starts at 1); from the second on all are alike.
        self._states = [rule.init()]
        for t in range(2):
            self._states.append(self._paced(t).memory)
        longest = ceil(rule.most_steps)
        self.iterations = self._first(lambda t: self._paced(t).progress >= 1, longest)
        """I, those of the whole run."""
        self.warm_from = self._first(lambda t: self.row(t + 1).warm >= 1, self.iterations + 1)
        """The first iteration at the full rate; beyond `iterations` where there is none."""

    def row(self, iteration: int) -> Row:
        """Iteration 1, 2, ..."""
        paced = self._paced(iteration - 1)
        return Row(
            iteration,
            iteration / self.rule.budget.steps_per_epoch,
            float(paced.lr),
            float(paced.scale.factor),
            float(paced.warm),
            paced.decay,
        )

    def _paced(self, t: int) -> Paced:
        return self.rule.pace(Span(t, t + 1), self._norms, self._state(t))[0]

    def _state(self, t: int) -> Memory:
        if t < 2:
            return self._states[t]
        return _ahead(self._states[1], self._states[2], t - 1)

    def _first(self, holds: Callable[[int], bool], limit: int) -> int:
        """The number (from 1) of the first step t < limit for which `holds`, or else `limit`."""
        return min(bisect_left(range(limit), True, key=holds) + 1, max(1, limit))


def courses(rule: Product) -> dict[str, Course]:
    """The one course of a rule, named ""; or the two that bound it where gradients have a say."""
    if not rule.needs_norms or rule.budget.learners == 1:
        return {"": Course(rule)}
    return {"equal": Course(rule), "orthogonal": Course(rule, float(rule.budget.learners))}


def _norms(gain: float) -> Norms:
    one = torch.full((1,), _MUCH, dtype=torch.float64)
    return Norms(gain * one, one)


def _ahead(one: Memory, two: Memory, steps: int) -> Memory:
    """The memory that is as many steps after `one`, `two` being one step after it."""
    warmup = two.warmup
    if isinstance(warmup, Sums):
        growth = warmup.total - one.warmup.total
        warmup = warmup._replace(total=one.warmup.total + steps * growth)
    return two._replace(warmup=warmup, tau=one.tau + steps * (two.tau - one.tau))
