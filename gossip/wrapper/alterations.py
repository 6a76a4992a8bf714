"""Detection of updates by hand: changes of the weights in a step by no optimizer."""

import torch

from gossip.errors import UserError
from gossip.wrapper.weights import Weights

MANY_PASSES = 32
"""From which forward pass of one step on this is looked at, once an optimizer has been seen."""
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Alterations:
    """Notices a loop that updates its weights by hand, which would not be averaged.

    It cannot be told from the first forward pass: a sharpness-aware optimizer (SAM) changes the
    weights behind one, too, and takes that back before its step. So one change is let pass, and
    with the second an update is no optimizer's. Until the first step has come to its end each
    forward pass looks at the weights, afterwards the 32nd, 64th, ... of one step do.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._trusted = False
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._passes, self._changes = 0, 0
        self._seen: list[int] | None = None

    def trust(self) -> None:
        """A step has come to its end: the loop says when it has changed the weights."""
        self._trusted = True

    def look(self) -> None:
        """A forward pass of the step begins.

        Raises:
            UserError: the weights have been changed again, by no optimizer.
        """
        self._passes += 1
        k = self._passes
        if self._trusted and (k < MANY_PASSES or k & (k - 1)):
            return
        now = [int(row.view(BITS[row.element_size()]).sum()) for row in self._weights.rows()]
        self._changes += self._seen not in (None, now)
        self._seen = now
        if self._changes > 1:
            raise UserError(
                f"the weights of {self._weights.whose} have been changed again and again by no "
                "torch optimizer's step(), and have not been averaged: call skip_step() behind an "
                "update by hand, which averages it; call model.module(...) for forward passes "
                "that are no part of a step"
            )
