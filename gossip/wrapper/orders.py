"""Order of averaging and update: averaging while computing (AWC), or adapt then combine (ATC)."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from torch import Tensor
from torch.optim import Optimizer

from gossip.algorithms.dpsgd import Dpsgd, DpsgdAtc
from gossip.algorithms.flat import FlatSpread
from gossip.errors import UserError
from gossip.wrapper.exchange import Exchange, Mixing
from gossip.wrapper.weights import Slot


class Order(Protocol):
    """What happens to the weights around the optimizers' work in one step t."""

    collective_end: bool
    """Whether `end` talks to the other learners."""
    changes: list[Tensor]
    """W w - w as rows, between `wait` and `end`; none where nothing is added, or not this way."""
    flat_spread: FlatSpread | None
    """Stationary variance of plain SGD without curvature, where there is a formula."""

    def start(self, t: int) -> None:
        """Step t has begun, with the weights as they are."""
        ...

    def wait(self) -> None:
        """Weights are about to be changed or looked at."""
        ...

    def stepping(self, optimizer: Optimizer) -> None:
        """An optimizer is about to change the weights."""
        ...

    def along(self, optimizer: Optimizer) -> None:
        """It has its gradients, and takes its step."""
        ...

    def stepped(self, slots: Iterable[Slot]) -> None:
        """An optimizer has changed these parameters, and others are still to be changed."""
        ...

    def end(self) -> list[Tensor] | None:
        """The step is over for all parameters, changed or not.

        Returns:
            What it has mixed, before the update was added; None: w + changes, or w(t+1).
        """
        ...

    def kept(self) -> Mapping[str, Tensor]:
        """What a method keeps beside the weights, name -> [1, ...]; not to be written to."""
        ...

    def state(self) -> dict[str, Any]:
        """What it keeps from step to step."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()`."""
        ...


class _Stateless:
    """What averages weights keeps nothing, and looks at no optimizer."""

    def wait(self) -> None:
        """There is nothing to wait for."""

    def stepping(self, optimizer: Optimizer) -> None:
        """Whichever it is."""
        self.wait()

    def along(self, optimizer: Optimizer) -> None:
        """Whichever they are."""

    def kept(self) -> Mapping[str, Tensor]:
        """Nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing.

        Raises:
            UserError: a method has kept something.
        """
        if "algorithm" in state:
            raise UserError(
                f"this state is of algorithm {state['algorithm']}, and the wrapper's is dpsgd: "
                "give the same"
            )


class Awc(_Stateless):
    r"""Averaging while computing: w <- (w + u) + (W w - w), with u what the optimizers added.

    The same arithmetic as `gossip.algorithms.Dpsgd`, in place: W w - w is taken before the first
    optimizer changes w, and added behind each of them to what it has changed.
    """

    collective_end = False
    flat_spread: FlatSpread | None = Dpsgd.flat_spread

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.changes: list[Tensor] = []
        self._mixing: Mixing | None = None
        self._ready = False
        self._done: set[str] = set()
        """Owners to which it has been added."""

    def start(self, t: int) -> None:
        """Start the messages."""
        self._mixing = self._exchange.start(t)
        self._ready, self._done = False, set()

    def wait(self) -> None:
        """Wait for them: W w - w is known then."""
        if self._mixing is None:
            return
        mixing, self._mixing = self._mixing, None
        arrived = mixing.finish()
        self.changes = [mixed.sub_(w) for w, mixed in zip(mixing.sent, arrived, strict=True)]
        self._ready = True

    def stepped(self, slots: Iterable[Slot]) -> None:
        """Add W w - w to these parameters."""
        names = {slot.owner for slot in slots} - self._done
        self._done |= names
        if self._ready:
            self._exchange.weights.add(self.changes, names)

    def end(self) -> None:
        """Add it to all the rest."""
        self.wait()
        self.stepped(self._exchange.weights.owners.values())
        self.changes, self._ready = [], False


class Atc(_Stateless):
    """Adapt, then combine: w <- W (w + u), the weights that all optimizers have changed."""

    collective_end = True
    flat_spread: FlatSpread | None = DpsgdAtc.flat_spread

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.changes: list[Tensor] = []
        self._t = 0

    def start(self, t: int) -> None:
        """ATC sends updated weights: before the update there is nothing to send."""
        self._t = t

    def stepped(self, slots: Iterable[Slot]) -> None:
        """The others are still to come."""

    def end(self) -> None:
        """Mix all parameters."""
        self._exchange.mix(self._t)


ORDERS: dict[str, type[Awc] | type[Atc]] = {"awc": Awc, "atc": Atc}
"""What `order=` offers."""
