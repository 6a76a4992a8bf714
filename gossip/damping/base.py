"""A damper decides the batch size of each update: what is seen and its own state in, a batch out.

Noise in a gradient falls with 1/B, so a batch that grows does what a falling learning rate does,
in fewer updates; where the batch may grow no more, the learning rate falls in its place.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from gossip.errors import UserError

LARGEST = 2**53
"""No damper asks for more: beyond it, floats do not count samples exactly."""
DWELL, WAIT = 20, 100
"""Of dampers that have to measure something: adadamp's."""


class Noise(NamedTuple):
    """Unbiased estimates from the gradients of one update; either may come out negative."""

    variance: float
    """tr(Sigma), the variance of a single sample's gradient."""
    signal: float
    """||g||^2, g the gradient of the whole training loss."""


class Seen(NamedTuple):
    """What a damper may look at before update k; whoever calls fills in `Damper.looks_at(k)`."""

    update: int
    """k, number of updates done."""
    samples: int
    """Drawn in those by all learners together."""
    population: int
    """N, training samples."""
    learners: int = 1
    """n learners draw a batch of the damper's size each; 1: it is the total batch."""
    loss: float | None = None
    """Mean loss of the last update's batch."""
    gradient_square: float | None = None
    """||g||^2 of the last update's gradient, averaged over the whole batch."""
    noise: Noise | None = None
    """Noise of the last update's gradient."""
    training_loss: float | None = None
    """F(w_k), mean loss of the present weights on the training set, or on `Damper.share` of it."""
    training_gradient_square: float | None = None
    """||grad F(w_k)||^2, of the same samples."""

    @property
    def epochs(self) -> float:
        """Passes over the training set so far, samples / N."""
        return self.samples / self.population

    @property
    def largest(self) -> int:
        """The largest batch in which all learners together draw no sample twice, N // n."""
        return self.population // self.learners


class Damping(NamedTuple):
    """What a damper says about one update."""

    batch: int
    """B, samples to draw."""
    lr_factor: float
    """gamma_k / gamma_0 = B / damping: 1, unless the batch is at its cap."""
    damping: int
    """B_k, the batch that would be drawn without a cap."""


class State(NamedTuple):
    """State of a damper: numbers only, so that a checkpoint can keep them."""

    damping: int
    """B_k of the last update at which it was evaluated."""
    own: Any
    """What the damper itself remembers: a NamedTuple of numbers."""


class Nothing(NamedTuple):
    """Memory of a damper that needs none."""


@dataclass(frozen=True, kw_only=True)
class Damper:
    r"""What all dampers share: when B_k is evaluated, and the cap.

    B_k is evaluated at k = 0 and then where k >= wait and dwell divides k; between, it stays. With
    a largest batch B_max,

    .. math:: B = \min(B_k, B_{max}), \qquad \gamma_k = \gamma_0 B / B_k

    so that the noise level gamma_k / B = gamma_0 / B_k is what B_k alone would give. The rate is
    computed from gamma_0 anew at each update: it comes back where B_k falls below the cap.

    Raises:
        UserError: a batch below 1, or a cap below the first batch.

    Reference: Sievert and Shah, "Training machine learning models faster with Dask", SciPy 2021;
    adadamp 0.2's `BaseDamper`, which never restores the rate and whose Dask part has no cap.
    """

    initial: int = 1
    """B_0, the first batch."""
    max_batch: float | None = None
    """B_max; None: the whole training set (N // n, where n learners draw); inf or NaN: none."""
    dwell: int = 1
    """Updates between two evaluations."""
    wait: int = 0
    """First update, after update 0, at which B_k may change."""

    observes: ClassVar[frozenset[str]] = frozenset()
    """Fields of `Seen` that it looks at, beyond those that are always there."""
    share: ClassVar[float] = 1.0
    """Share of the training set behind `training_loss` and `training_gradient_square`."""
    whole: ClassVar[Mapping[str, int]] = MappingProxyType({"initial": 1, "dwell": 1, "wait": 0})
    """Options that are whole numbers -> the least each may be."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name, least in self.whole.items():
            value = getattr(self, name)
            if value != int(value) or value < least:
                raise UserError(f"{name}={value}: it must be a whole number from {least} up")
            object.__setattr__(self, name, int(value))  # 8.0 or NumPy's 8: batches index samples
        if self.max_batch is not None and self.max_batch < self.initial:
            raise UserError(
                f"max_batch={self.max_batch:g} is below the first batch of {self.initial}: a batch "
                "grows; give at least that, or inf for no cap"
            )

    @property
    def least(self) -> int:
        """The smallest batch there can be."""
        return self.initial

    def init(self) -> State:
        """The state before update 0."""
        return State(self.initial, self.begin())

    def due(self, update: int) -> bool:
        """Whether B_k is evaluated before update k."""
        return update == 0 or (update >= self.wait and update % self.dwell == 0)

    def looks_at(self, update: int) -> frozenset[str]:
        """Fields of `Seen` that `update` needs before update k: the others may be None."""
        return self.observes if self.due(update) else frozenset()

    def update(self, seen: Seen, state: State) -> tuple[Damping, State]:
        """Batch and rate of update k, and the next state; to be called once for each update."""
        own, damping = self.noted(seen, state.own), state.damping
        if self.due(seen.update):
            damping, own = self.evaluated(seen, own)
        return self.capped(damping, seen), State(damping, own)

    def capped(self, damping: int, seen: Seen) -> Damping:
        """B_k under the cap."""
        cap = self.cap(seen)
        if damping < cap:
            return Damping(damping, 1.0, damping)
        return Damping(int(cap), int(cap) / damping, damping)

    def cap(self, seen: Seen) -> float:
        """B_max, infinite where there is none."""
        if self.max_batch is None:
            return seen.largest
        return math.inf if math.isnan(self.max_batch) else self.max_batch

    def begin(self) -> Any:
        """What the damper remembers before update 0."""
        return Nothing()

    def noted(self, seen: Seen, own: Any) -> Any:
        """Take in what was seen of the last update."""
        return own

    def evaluated(self, seen: Seen, own: Any) -> tuple[int, Any]:
        """B_k, and what to remember."""
        return self.initial, own


def whole(batch: float) -> int:
    """The batch rounded up, from 1 to `LARGEST`; the last bits of a float are no sample more."""
    return max(1, math.ceil(round(min(batch, LARGEST), 9)))


def grown(initial: float, first: float, now: float) -> int:
    """Initial x first / now: the largest where nothing is left, 1 where it is not finite."""
    if not (math.isfinite(first) and math.isfinite(now)):
        return 1
    if first <= 0:
        return whole(initial)
    return whole(initial * (first / now) if now > 0 else math.inf)
