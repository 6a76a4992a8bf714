"""Dampers that follow the gradients which are computed anyway, by running averages."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gossip.damping.base import DWELL, WAIT, Damper, Seen, grown
from gossip.errors import UserError, one_of


class Running(NamedTuple):
    """Memory of `RadaDamp`: first values, running averages, and what came since."""

    first_loss: float = math.nan
    first_square: float = math.nan
    loss: float = math.nan
    square: float = math.nan
    new_loss: float = math.nan
    new_square: float = math.nan
    count: int = 0
    """Updates reduced into the new values."""


REDUCTIONS = ("min", "mean")


@dataclass(frozen=True, kw_only=True)
class RadaDamp(Damper):
    r"""`AdaDamp` and `AdaDampNN` together, from the batches that are drawn anyway.

    .. math::
        B_k = \Big\lceil B_0 \Big/ \tfrac12 \Big(\frac{\bar\ell}{\ell_0} +
        \frac{\bar\nu}{\nu_0}\Big) \Big\rceil \ge B_0

    The bars are running averages, rho old + (1 - rho) reduce(new), of the batch losses and of the
    squared norms of the batch gradients since the last evaluation; all updates up to the first
    evaluation from `wait` on, reduced in the same way, are l_0 and nu_0. Updates that are not
    finite are passed over.

    Reference: adadamp's `RadaDamp`, in no paper.
    """

    dwell: int = DWELL
    wait: int = WAIT
    rho: float = 0.2
    """What the old average weighs."""
    reduction: str = "min"
    """How the updates since the last evaluation become one number: min, mean."""

    observes: ClassVar[frozenset[str]] = frozenset({"loss", "gradient_square"})

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        one_of(REDUCTIONS, self.reduction, "reduction of RadaDamp")
        if not 0 <= self.rho < 1:
            raise UserError(f"rho={self.rho}: it must be in [0, 1)")

    def looks_at(self, update: int) -> frozenset[str]:
        """Every update that has been done."""
        return self.observes if update else frozenset()

    def begin(self) -> Running:
        """Nothing seen."""
        return Running()

    def noted(self, seen: Seen, own: Running) -> Running:
        """Reduce one more update."""
        loss, square = seen.loss, seen.gradient_square
        if seen.update == 0 or loss is None or square is None:
            return own
        if not (math.isfinite(loss) and math.isfinite(square)):
            return own
        if own.count:
            loss, square = self._reduced(own, loss, square)
        return own._replace(new_loss=loss, new_square=square, count=own.count + 1)

    def evaluated(self, seen: Seen, own: Running) -> tuple[int, Running]:
        """B_0 over the mean of the two shares that are left."""
        if own.count == 0:
            return self.initial, own
        if math.isnan(own.first_loss):
            own = own._replace(first_loss=own.new_loss, first_square=own.new_square)
            loss, square = own.new_loss, own.new_square
        else:
            loss = self.rho * own.loss + (1 - self.rho) * own.new_loss
            square = self.rho * own.square + (1 - self.rho) * own.new_square
        own = own._replace(loss=loss, square=square, count=0)
        left = (_share(loss, own.first_loss) + _share(square, own.first_square)) / 2
        return max(self.initial, grown(self.initial, 1.0, left)), own

    def _reduced(self, own: Running, loss: float, square: float) -> tuple[float, float]:
        if self.reduction == "min":
            return min(own.new_loss, loss), min(own.new_square, square)
        weight = 1 / (own.count + 1)
        return (
            own.new_loss + weight * (loss - own.new_loss),
            own.new_square + weight * (square - own.new_square),
        )


class Averages(NamedTuple):
    """Memory of `NoiseScale`: moving averages that start at zero, and their weight so far."""

    variance: float = 0.0
    signal: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True, kw_only=True)
class NoiseScale(Damper):
    r"""A total batch as large as the gradient noise scale.

    .. math::
        B_k = \Big\lceil \frac{scale}{n} \cdot
        \frac{\overline{\mathrm{tr}(\Sigma)}}{\overline{\|g\|^2}} \Big\rceil \ge B_0

    At a batch equal to the noise scale, noise and signal of the mean gradient are of one size:
    smaller batches waste updates, larger ones samples. The bars are moving averages of the two
    estimates from the learners' gradients (divided after averaging: a ratio of noisy numbers is
    biased). B_k is at most N // n: an estimate of the signal that is lost in the noise, so near 0
    or below, says that the batch cannot be too large, and not that the rate has to fall. Under a
    smaller max_batch it falls then, as beyond it under every damper.

    Reference: McCandlish et al., "An empirical model of large-batch training", arXiv 1812.06162,
    Section 2 and Appendix A; that the batch follows it, n learners with a share each, is our own.
    """

    dwell: int = DWELL
    wait: int = WAIT
    scale: float = 1.0
    """Total batch in noise scales."""
    theta: float = 0.95
    """What the old averages weigh."""

    observes: ClassVar[frozenset[str]] = frozenset({"noise"})

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if not 0 < self.scale < math.inf:
            raise UserError(f"scale={self.scale}: it must be a positive number")
        if not 0 <= self.theta < 1:
            raise UserError(f"theta={self.theta}: it must be in [0, 1)")

    def looks_at(self, update: int) -> frozenset[str]:
        """Every update that has been done."""
        return self.observes if update else frozenset()

    def begin(self) -> Averages:
        """Nothing seen."""
        return Averages()

    def noted(self, seen: Seen, own: Averages) -> Averages:
        """Average the estimates of one more update, unless they are not finite."""
        if seen.update == 0 or seen.noise is None or not all(map(math.isfinite, seen.noise)):
            return own
        old, new = self.theta, 1 - self.theta
        return Averages(
            old * own.variance + new * seen.noise.variance,
            old * own.signal + new * seen.noise.signal,
            old * own.weight + new,
        )

    def evaluated(self, seen: Seen, own: Averages) -> tuple[int, Averages]:
        """The noise scale, shared by the learners."""
        if own.weight == 0:
            return self.initial, own
        batch = grown(self.scale / seen.learners, own.variance, own.signal)
        return max(self.initial, min(batch, seen.largest)), own


def _share(now: float, first: float) -> float:
    return now / first if first else 1.0
