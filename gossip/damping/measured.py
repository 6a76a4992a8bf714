"""Dampers that measure the training set now and then: the less is left, the larger the batch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from gossip.damping.base import DWELL, WAIT, Damper, Seen, grown
from gossip.errors import UserError


class First(NamedTuple):
    """Memory of a damper that compares with the beginning."""

    value: float = math.nan
    """What was measured first: at w_0, unless that was not finite or the damper came later."""


@dataclass(frozen=True, kw_only=True)
class Measured(Damper):
    """What dampers share that measure the training set from time to time, and so may fall."""

    dwell: int = DWELL
    wait: int = WAIT
    share: float = 1.0  # pyrefly: ignore[bad-override]
    """Share of the training set that is measured; the paper's approximation is 0.1."""
    min_batch: int = 1
    """The smallest batch there can be; models with BatchNorm need 2."""

    whole: ClassVar[Mapping[str, int]] = MappingProxyType({**Damper.whole, "min_batch": 1})

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise UserError(f"share={self.share}: it is a share of the training set, in (0, 1]")
        if self.min_batch > self.initial:
            raise UserError(
                f"min_batch={self.min_batch}: it must be a whole number from 1 to the first batch, "
                f"{self.initial}"
            )

    @property
    def least(self) -> int:
        """As the option says."""
        return self.min_batch

    def begin(self) -> First:
        """Nothing measured yet."""
        return First()

    def first(self, own: First, now: float) -> First:
        """The first value that is finite."""
        return own if math.isfinite(own.value) else First(now)

    def grown(self, first: float, now: float) -> int:
        """B_0 first / now."""
        return max(self.min_batch, grown(self.initial, first, now))


@dataclass(frozen=True, kw_only=True)
class AdaDamp(Measured):
    r"""A batch in inverse proportion to the loss that is left.

    .. math:: B_k = \Big\lceil B_0 \frac{F(w_0) - F^*}{F(w_k) - F^*} \Big\rceil

    F is the mean training loss, a pass over the training set (or a share of it) whenever it is
    evaluated. A loss above the first gives a smaller batch, one that is not finite the least, and
    one at F* or below the largest.

    Reference: Sievert and Shah, SciPy 2021; Sievert and Shah, "Improving the convergence of SGD
    through adaptive batch sizes", arXiv 1910.08222.
    """

    best_train_loss: float = 0.0
    """F*, the least loss there can be."""

    observes: ClassVar[frozenset[str]] = frozenset({"training_loss"})

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if not math.isfinite(self.best_train_loss):
            raise UserError(f"best_train_loss={self.best_train_loss}: it must be a number")

    def evaluated(self, seen: Seen, own: First) -> tuple[int, First]:
        """B_0 (F_0 - F*) / (F_k - F*).

        Raises:
            UserError: F* is not below F_0.
        """
        assert seen.training_loss is not None
        left = seen.training_loss - self.best_train_loss
        own = self.first(own, left)
        if own.value <= 0:
            raise UserError(
                f"best_train_loss={self.best_train_loss} is not below the first training loss, "
                f"{own.value + self.best_train_loss:g}: give the least that can be reached"
            )
        return self.grown(own.value, left), own


@dataclass(frozen=True, kw_only=True)
class AdaDampNN(Measured):
    r"""A batch in inverse proportion to the squared gradient of the training loss.

    .. math:: B_k = \lceil B_0 \|\nabla F(w_0)\|^2 / \|\nabla F(w_k)\|^2 \rceil

    For losses that are not convex, where no F* is known. Costs the gradient of the whole training
    set (or a share of it) whenever it is evaluated.
    """

    observes: ClassVar[frozenset[str]] = frozenset({"training_gradient_square"})

    def evaluated(self, seen: Seen, own: First) -> tuple[int, First]:
        """B_0 nu_0 / nu_k."""
        assert seen.training_gradient_square is not None
        square = seen.training_gradient_square
        own = self.first(own, square)
        return self.grown(own.value, square), own
