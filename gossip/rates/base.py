"""A learning-rate rule is a controller: an observation and its own state in, a rate out."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from gossip.comm.base import Communicator


class Observation(NamedTuple):
    """What a rule may look at when it sets the rate of step t, the gradient already there."""

    step: int
    """t."""
    progress: float
    """Share of the run's budget done before this step, t / steps in [0, 1)."""
    gradients: Tensor
    """Raw gradients of this step, [rows, d]."""
    comm: Communicator
    """For statistics over all learners; a rule that needs none sends nothing."""


class Rule(Protocol):
    """Learning rate = base x scaling x warm-up x decay."""

    def init(self) -> Any:
        """The state before step 0."""
        ...

    def update(self, observation: Observation, state: Any) -> "tuple[float | Tensor, Any]":
        """The rate of this step, one number or one per layer [layers], and the next state."""
        ...


class Controller:
    """A rule at work: keeps its state from step to step, so that the loop need not know it."""

    def __init__(self, rule: Rule, comm: Communicator, steps: int) -> None:
        self.state = rule.init()
        self._rule, self._comm, self._steps = rule, comm, steps

    def at(self, t: int) -> "Callable[[Tensor], float | Tensor]":
        """The rate of step t as a function of its raw gradients; call it exactly once."""

        def rate(gradients: Tensor) -> "float | Tensor":
            observation = Observation(t, t / self._steps, gradients, self._comm)
            lr, self.state = self._rule.update(observation, self.state)
            return lr

        return rate
