"""Methods of `gossip.algorithms` around a user's own optimizer: the harness's step, replayed."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from gossip.algorithms import ALGORITHMS, Algorithm, AlgorithmSettings, check_options
from gossip.algorithms.base import State, Step
from gossip.algorithms.flat import FlatSpread
from gossip.algorithms.options import WithOptions
from gossip.algorithms.refusals import of_wire, refusals
from gossip.errors import UserError, lookup
from gossip.optim import FlatOptimizer
from gossip.optim.flat import Increment, between
from gossip.task import Gradients
from gossip.task.layers import Layer
from gossip.wrapper.exchange import Exchange
from gossip.wrapper.watching import as_one_row, is_left_out, is_plain
from gossip.wrapper.weights import Slot, Weights
from topologies import Topology

PLAIN = "torch.optim.SGD without momentum, one learning rate and no maximize"


def method(name: str, options: Mapping[str, Any], seed: int) -> Algorithm:
    """The method of that name, for a learner whose optimizer is the user's.

    Args:
        name: one of `gossip.algorithms.ALGORITHMS`.
        options: its own, as numbers or texts.
        seed: of what it draws.

    Raises:
        UserError: there is none, or no such option, or it cannot do with a learner's gradients.
    """
    line = lookup(ALGORITHMS, name, "algorithm")
    check_options([name], [f"{key}={value}" for key, value in options.items()])
    texts = {key: str(value) for key, value in options.items()}
    made = line(partial(FlatOptimizer, SGD, ()), AlgorithmSettings("awc", 0.1, "eval", seed, texts))
    if made.shared or not (isinstance(line, WithOptions) and made.properties.own_points):
        raise UserError(
            f"algorithm {name} takes gradients elsewhere than at the learner's own weights, which "
            'a wrapper cannot: use gossip.run for it, or another, as algorithm="diloco"'
        )
    if made.properties.shares_moments:
        raise UserError(
            f"algorithm {name} averages what the optimizer keeps, which a wrapper leaves to it; "
            "use gossip.run for it, or moments=local"
        )
    return made


def check_method(name: str, made: Any, topology: Topology, weights: Weights, wire: str) -> None:
    """Refuse a topology, weights or a wire that the method cannot be run with.

    Raises:
        UserError: they are such.
    """
    for row in weights.like:
        if hasattr(made, "check"):
            made.check(row.shape[1])
    for reason in chain(refusals(made.properties, topology), of_wire(made, wire)):
        raise UserError(f"algorithm {name} {reason}".replace("--", ""))


class MethodOrder:
    """A method's step behind the work of the user's optimizers.

    The step is that of the harness. Where it asks for the optimizer's, it gets the weights x' that
    the user's have left along g; along another direction d, x' - alpha (d - g), which is plain
    SGD's.

    Args:
        name: of the method, for messages.
        made: the method.
        exchange: the learner's way to the others.
    """

    collective_end = True

    def __init__(self, name: str, made: Algorithm, exchange: Exchange) -> None:
        self._name, self._made, self._exchange = name, made, exchange
        self._steers = made.properties.steers or made.properties.own_momentum
        self.changes: list[Tensor] = []
        self.flat_spread: FlatSpread | None = getattr(made, "flat_spread", None)
        self._t = 0
        self._rate: float | None = None
        """The newest that is known: a step that is left out may have none."""
        self._rates: set[float] = set()
        """Those of the step."""
        self._along = False
        """Whether an optimizer has taken it along `_gradients`."""
        self._before: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._states = [made.init(row[0], 1) for row in exchange.weights.rows()]

    def start(self, t: int) -> None:
        """Note the weights before the update: nothing is sent yet."""
        self._t, self._rates, self._along = t, set(), False
        self._before = self._exchange.weights.rows()
        self._gradients = [torch.zeros_like(row) for row in self._before if self._steers]

    def wait(self) -> None:
        """There is nothing to wait for."""

    def stepping(self, optimizer: Optimizer) -> None:
        """Note its learning rate.

        Raises:
            UserError: it is none that the method can do with.
        """
        if not (self._steers or self._made.properties.one_rate):
            return
        self._rates |= {float(group["lr"]) for group in optimizer.param_groups}
        rates = len(self._rates)
        if self._steers and not (is_plain(optimizer) and rates == 1):
            raise UserError(
                f"algorithm {self._name} gives its optimizer another direction than the gradient, "
                f"so it needs {PLAIN}: a momentum is among its own options"
            )
        if rates > 1:
            raise UserError(
                f"algorithm {self._name} divides by the learning rate, and the optimizers have "
                f"{rates} of them: give all parameters one"
            )
        (self._rate,) = self._rates

    def along(self, optimizer: Optimizer) -> None:
        """Note its gradients."""
        if self._steers and not is_left_out(optimizer):
            self._along = True
            self._exchange.weights.collect(self._gradients, optimizer)

    def stepped(self, slots: Iterable[Slot]) -> None:
        """The others are still to come."""

    def end(self) -> list[Tensor]:
        """The method's step.

        Returns:
            What it calls mixed.

        Raises:
            UserError: the update was left out, which the method cannot.
        """
        if self._steers and not self._along and not self._made.properties.leaves_out:
            raise UserError(
                f"algorithm {self._name} keeps gradients from step to step and cannot leave one "
                "out, as skip_step() and a GradScaler do: use another"
            )
        exchange, comm = self._exchange, self._exchange.comm
        sent = (comm.traffic.bytes_sent_per_learner, comm.traffic.messages_per_learner)
        waited = comm.traffic.seconds_waiting
        after = exchange.weights.rows()
        gradients = self._gradients or after  # of the others, only that it is what Stepped has
        layers = exchange.weights.layers
        parts = zip(self._states, self._before, gradients, after, layers, strict=True)
        stepped = [self._step(*each) for each in parts]
        self._states = [state for state, _ in stepped]
        exchange.weights.put([state.x for state in self._states])
        exchange.traffic.bytes_sent_per_learner += comm.traffic.bytes_sent_per_learner - sent[0]
        exchange.traffic.messages_per_learner += comm.traffic.messages_per_learner - sent[1]
        exchange.traffic.seconds_waiting += comm.traffic.seconds_waiting - waited
        self._before, self._gradients = [], []
        return [step.mixed for _, step in stepped]

    def _step(
        self, state: State[Any], before: Tensor, g: Tensor, after: Tensor, layers: list[Layer]
    ) -> tuple[State[Any], Step]:
        rate = self._known_rate()
        gradients = Gradients(g, before.new_zeros(1))
        now = state._replace(step=self._t, x=before, optimizer=Stepped(g, after, layers))
        w, comm = self._exchange.topology.matrix(self._t), self._exchange.comm
        return self._made.step(now, lambda _: gradients, w, OptimizerRate(rate), comm)

    def _known_rate(self) -> float:
        """Of this step or of the last that had one; methods that do not look at it get 1."""
        if self._rate is not None:
            return self._rate
        if self._steers or self._made.properties.one_rate:
            raise UserError(
                f"algorithm {self._name} needs the learning rate, which no optimizer has told yet: "
                "leave no step out before the first optimizer.step()"
            )
        return 1.0

    def kept(self) -> dict[str, Tensor]:
        """What the method keeps, [1, ...]; of several rows one behind the other.

        What is no row of numbers, as the mass of push-sum, is the same for each of them.
        """
        first, *others = self._states
        if not others:
            return dict(first.rows)
        return {
            name: as_one_row([state.rows[name] for state in self._states])
            if own.shape == first.x.shape
            else own
            for name, own in first.rows.items()
        }

    def state(self) -> dict[str, Any]:
        """What the method keeps, and the step that is under way, if one is."""
        return {
            "algorithm": self._name,
            "kept": [{k: v.clone() for k, v in state.rows.items()} for state in self._states],
            "before": [row.clone() for row in self._before],
            "gradients": [row.clone() for row in self._gradients],
            "rate": self._rate,
            "along": self._along,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()`.

        Raises:
            UserError: it is that of another method, or of none.
        """
        if state.get("algorithm") != self._name:
            raise UserError(
                f"this state is of algorithm {state.get('algorithm', 'dpsgd')}, and the wrapper's "
                f"is {self._name}: give the same"
            )
        like = self._exchange.weights.like
        self._states = [
            now.arrived()._replace(rows={k: v.to(row) for k, v in rows.items()})
            for now, rows, row in zip(self._states, state["kept"], like, strict=True)
        ]
        pairs = partial(zip, like, strict=False)  # between two steps there are none
        self._before = [row.to(own) for own, row in pairs(state["before"])]
        self._gradients = [row.to(own) for own, row in pairs(state["gradients"])]
        self._rate, self._along = state["rate"], state.get("along", True)


class OptimizerRate(NamedTuple):
    """The learning rate of the user's optimizer."""

    rate: float

    def __call__(
        self,
        x: Tensor,
        gradients: Gradients,
        mean: Tensor | None = None,
        taken: Tensor | None = None,
    ) -> float:
        """Whatever the gradients."""
        return self.rate


class Stepped:
    """In an optimizer's place: its step has been made, by the user's.

    Args:
        gradients: along which it was made, [1, d].
        x: the weights after it, [1, d].
        layers: the columns of each parameter.
    """

    def __init__(self, gradients: Tensor, x: Tensor, layers: Sequence[Layer]) -> None:
        self._gradients, self._x, self.layers = gradients, x, layers

    def step(self, x: Tensor, direction: Tensor, lr: float) -> Tensor:
        """The weights after it, or after SGD's along another direction."""
        if direction is self._gradients:
            return self._x
        return self._x - lr * (direction - self._gradients)

    def increment(self, x: Tensor, direction: Tensor, lr: float) -> Increment:
        """The same increment, to be added elsewhere."""
        return between(x, self.step(x, direction, lr))

    @staticmethod
    def rated(rows: Tensor, lr: float) -> Tensor:
        """What rows are times the learning rate."""
        return lr * rows
