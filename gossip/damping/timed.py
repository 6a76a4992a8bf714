"""Dampers that follow a plan: B_k depends on the samples or the updates so far, and on no loss."""

import math
from dataclasses import dataclass

from gossip.damping.base import LARGEST, Damper, Nothing, Seen, whole
from gossip.errors import UserError


@dataclass(frozen=True, kw_only=True)
class ConstantBatch(Damper):
    """B_k = B_0, adadamp's `BaseDamper`."""


@dataclass(frozen=True, kw_only=True)
class GeoDamp(Damper):
    r"""A batch that is multiplied by a factor every few epochs.

    .. math:: B_k = \lceil B_0 \cdot factor^{\lfloor epochs / delay \rfloor} \rceil, \qquad
        epochs = samples / N

    Reference: Smith et al., "Don't decay the learning rate, increase the batch size", ICLR 2018;
    the AdaDamp paper has delay 60 and factor 5.
    """

    delay: float = 5.0
    """Epochs between two steps of the batch."""
    factor: float = 2.0
    """What each multiplies it by."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if not 0 < self.delay < math.inf:
            raise UserError(f"delay={self.delay}: it must be a positive number of epochs")
        if not 1 <= self.factor < math.inf:
            raise UserError(f"factor={self.factor}: it must be a number from 1 up")

    def evaluated(self, seen: Seen, own: Nothing) -> tuple[int, Nothing]:
        """B_0 factor^(steps so far)."""
        steps = math.floor(round(seen.samples / (seen.population * self.delay), 9))
        if steps * math.log2(self.factor) > math.log2(LARGEST):
            return LARGEST, own
        return whole(self.initial * float(self.factor) ** steps), own


@dataclass(frozen=True, kw_only=True)
class GeoDampLR(GeoDamp):
    r"""The batch stays; the rate falls as `GeoDamp`'s noise level does.

    .. math:: B = B_0, \qquad \gamma_k = \gamma_0 \cdot factor^{-\lfloor epochs / delay \rfloor}
    """

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        _refuse_cap(self)

    def cap(self, seen: Seen) -> float:
        """B_0."""
        return self.initial


@dataclass(frozen=True, kw_only=True)
class PadaDamp(Damper):
    r"""A batch that grows by a constant from update to update.

    .. math:: B_k = \lceil B_0 + rate \cdot k \rceil

    The practical stand-in for `AdaDamp` on convex problems, with no loss to be measured.
    """

    rate: float = 1e-3
    """Samples added per update."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        _check_rate(self.rate)

    def evaluated(self, seen: Seen, own: Nothing) -> tuple[int, Nothing]:
        """B_0 + rate k."""
        return whole(self.initial + self.rate * seen.update), own


@dataclass(frozen=True, kw_only=True)
class CntsDampLR(Damper):
    r"""The batch stays; the rate falls as 1/k.

    .. math:: B = B_0, \qquad \gamma_k = \gamma_0 B_0 / B_k, \qquad
        B_k = \mathrm{round}(B_0 + 1 + rate \cdot (k + 1))

    The first update already has gamma_0 B_0 / (B_0 + 1), as in adadamp.
    """

    rate: float = 0.02
    """Samples that the batch would grow by per update."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        _check_rate(self.rate)
        _refuse_cap(self)

    def cap(self, seen: Seen) -> float:
        """B_0."""
        return self.initial

    def evaluated(self, seen: Seen, own: Nothing) -> tuple[int, Nothing]:
        """B_0 + 1 + rate (k + 1)."""
        return round(min(self.initial + 1 + self.rate * (seen.update + 1), LARGEST)), own


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Damper):
    r"""All samples at every update: B_k = N, or N // n for each of n learners."""

    def evaluated(self, seen: Seen, own: Nothing) -> tuple[int, Nothing]:
        """All there are."""
        return seen.largest, own


def _check_rate(rate: float) -> None:
    if not 0 <= rate < math.inf:
        raise UserError(f"rate={rate}: it must be a number of samples per update, from 0 up")


def _refuse_cap(damper: Damper) -> None:
    if damper.max_batch not in (None, damper.initial):
        raise UserError(
            f"max_batch={damper.max_batch:g} with {type(damper).__name__}, which keeps the batch "
            f"at the first one, {damper.initial}, and lets the rate fall: leave the cap away"
        )
