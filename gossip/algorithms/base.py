"""The shape of an algorithm: state in, state out; no hooks, no rank, no device."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.rates.base import Rate
from gossip.task import Gradients

Gradient = Callable[[Tensor], Gradients]
"""x [rows, d] -> gradients and losses on this step's batches."""


class Step(NamedTuple):
    """What one step did; the monitor reads it and changes nothing. rows = local, or 1 if shared."""

    points: Tensor
    """Weights at which the gradients were taken, [rows, d]."""
    gradients: Tensor
    """Raw gradients there, [rows, d]."""
    losses: Tensor
    """Mini-batch losses there, [rows]."""
    mixed: Tensor
    """W X, the weights before the increment was added, [rows, d]."""
    lr: "float | Tensor"
    """Learning rate used: one number, one per layer, or one per learner and layer."""


class State(NamedTuple):
    """Where an algorithm is."""

    step: int
    """Number of steps done, t."""
    x: Tensor
    """Weights w_j(t) of the hosted learners, [local, d], or the one shared row, [1, d]."""
    optimizer: Any
    """The optimizer with its state, which stays with its learner."""


class Startable(Protocol):
    """What algorithms with and without a common step have in common."""

    shared: ClassVar[bool]
    """Whether all learners have one model in common, kept as a single row."""

    def init(self, x: Tensor, local: int) -> State:
        """Start `local` learners from the same weights x [d]."""
        ...


class Algorithm(Startable, Protocol):
    """One member of the family; see `gossip.algorithms.ALGORITHMS`."""

    def step(
        self, state: State, gradient: Gradient, w: csr_array, rate: Rate, comm: Communicator
    ) -> tuple[State, Step]:
        """One step; `state.x` is left as it was, the new state has rows of its own."""
        ...
