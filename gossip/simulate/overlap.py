"""How much of an all-reduce of gradients hides behind the backward pass."""

import math
from dataclasses import dataclass

from gossip.errors import UserError

BACKWARD = 2 / 3
"""The share of a gradient's time that is the backward pass: about two products for each of the
forward pass."""


@dataclass(frozen=True)
class Overlap:
    r"""Gradients of the last layers travel while those of the first are computed.

    An all-reduce of T seconds after a gradient of C, 2/3 of it the backward pass, ends

    - max(0, T - omega 2/3 C) after it, omega being the fraction of the backward pass that can hide
      messages; or
    - (C^gamma + T^gamma)^(1/gamma) after its beginning, gamma being a norm from 1, one after the
      other, up: the larger, the nearer to max(C, T).

    Reference: Qiao et al., "Pollux", OSDI 2021 (the norm).
    """

    fraction: float = 0.0
    """omega, from 0 to 1."""
    norm: float = 1.0
    """gamma, from 1 to 10."""

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise UserError(
                f"overlap={self.fraction:g}: give the share of the backward pass that can hide an "
                "all-reduce, from 0 to 1"
            )
        if not 1 <= self.norm <= 10:
            raise UserError(
                f"overlap_norm={self.norm:g}: give a number from 1, no overlap, to 10, nearly the "
                "larger of gradient and all-reduce"
            )
        if self.fraction and self.norm > 1:
            raise UserError(
                f"overlap={self.fraction:g} with overlap_norm={self.norm:g}: they say the same "
                "thing in two ways; give one of them"
            )

    def exposed(self, seconds: float, gradient: float) -> float:
        """Seconds of the all-reduce that remain after the gradient.

        Args:
            seconds: T.
            gradient: C, of the learner that comes to it last; 0: nothing is hidden.
        """
        longer = max(seconds, gradient)
        if self.norm > 1 and longer:
            parts = (gradient / longer) ** self.norm + (seconds / longer) ** self.norm
            return longer * math.pow(parts, 1 / self.norm) - gradient
        return max(0.0, seconds - self.fraction * BACKWARD * gradient)


NO_OVERLAP = Overlap()
