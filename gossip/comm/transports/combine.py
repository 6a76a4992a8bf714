"""W X as a chain of weighted additions of rows, in the order of learners."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from gossip.comm.base import Decode
from gossip.comm.transports.message_plan import MessagePlan, Term

HALVES = (torch.bfloat16, torch.float16)
"""Sums of these are taken in float32."""

Near = Callable[[int], Tensor]
"""The k-th of `MessagePlan.near`'s rows, waited for."""
Far = Callable[[], Tensor]
"""The rows of `MessagePlan.far`, waited for, [len(far), d]."""


def mixture(plan: MessagePlan, own: Tensor, rows: Tensor, near: Near, far: Far) -> Tensor:
    """W X for the hosted learners, [local, d]; what is there is added while the rest arrives.

    Args:
        plan: the weights, and whose rows they belong to.
        own: hosted rows in full, [local, d].
        rows: hosted rows as others get them, perhaps with fewer bits, [local, d].
        near: gives rows of processes that share memory.
        far: gives rows that arrive as messages.
    """
    full = own.float() if own.dtype in HALVES else own
    if plan.terms is None:
        mixed = _products(plan, full, rows, near, far)
    else:
        mixed = _sums(plan, plan.terms, full, rows, near, far)
    return mixed.to(own.dtype)


def decoded_mixture(plan: MessagePlan, own: Tensor, near: Near, far: Far, decode: Decode) -> Tensor:
    """W decode(X) for the hosted learners, [local, d].

    Args:
        plan: the weights, and whose payloads they belong to.
        own: hosted payloads, [local, bytes].
        near: gives payloads of processes that share memory.
        far: gives payloads that arrive as messages.
        decode: what they stand for.
    """
    rows = decode(own)

    def near_row(k: int) -> Tensor:
        return decode(near(k).unsqueeze(0))[0]

    def far_rows() -> Tensor:
        payloads = far()
        return decode(payloads) if len(payloads) else rows[:0]

    return mixture(plan, rows, rows, near_row, far_rows)


def _products(plan: MessagePlan, own: Tensor, rows: Tensor, near: Near, far: Far) -> Tensor:
    """Sum of many terms: the rows from elsewhere are collected into one matrix."""
    diagonal = plan.diagonal(own.dtype, own.device)
    mixed = plan.mix_own(rows.to(own.dtype)).addcmul_(diagonal, own)
    theirs = [near(k) for k in range(len(plan.near))] + list(far())
    if theirs:
        mixed += plan.mix_theirs(torch.stack(theirs).to(own.dtype))
    return mixed


def _sums(
    plan: MessagePlan, terms: list[list[Term]], own: Tensor, rows: Tensor, near: Near, far: Far
) -> Tensor:
    """Sum of few terms: the rows are added where they lie."""
    mixed = torch.empty_like(own)
    local, here = len(own), len(own) + len(plan.near)
    near, far = cache(near), cache(far)
    for i, (into, parts) in enumerate(zip(mixed, terms, strict=True)):
        total = ConvexSum(into) if plan.convex else PlainSum(into)
        for weight, k in parts:
            if k < local:
                row = own[i] if k == i else rows[k]
            else:
                row = near(k - local) if k < here else far()[k - here]
            total.add(weight, row.to(own.dtype))
        total.close()
    far()  # what was sent may be written to from now on
    return mixed


class ConvexSum:
    r"""A sum with positive weights that come to 1, kept as the mean of the terms so far.

    .. math::
        m_k = m_{k-1} + \frac{w_k}{w_1 + \dots + w_k} (x_k - m_{k-1})

    One pass over memory for each neighbour, where sum <- w_1 x_1 would be another; and what is the
    same everywhere stays the same to the bit.
    """

    def __init__(self, into: Tensor) -> None:
        self._into = into
        self._mean: Tensor | None = None
        self._weight = 0.0

    def add(self, weight: float, row: Tensor) -> None:
        """Add weight times row."""
        self._weight += weight
        if self._mean is None:
            self._mean = row
        else:
            self._mean = torch.lerp(self._mean, row, weight / self._weight, out=self._into)

    def close(self) -> None:
        """There are no more."""
        if self._mean is not None and self._mean is not self._into:
            self._into.copy_(self._mean)


class PlainSum:
    """A sum with any weights."""

    def __init__(self, into: Tensor) -> None:
        self._into = into
        self._is_empty = True

    def add(self, weight: float, row: Tensor) -> None:
        """Add weight times row."""
        if self._is_empty:
            torch.mul(row, weight, out=self._into)
        else:
            self._into.add_(row, alpha=weight)
        self._is_empty = False

    def close(self) -> None:
        """There are no more."""
        if self._is_empty:
            self._into.zero_()
