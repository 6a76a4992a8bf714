"""The shape of an algorithm: state in, state out; no hooks, no rank, no device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms.flat import FlatSpread
from gossip.algorithms.pattern import Pattern
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator, Pending
from gossip.optim.flat import FlatOptimizer
from gossip.rates.base import LearningRate
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
    known_centre: bool = False
    """Whether `points` were drawn about the mean model, instead of having it as their mean."""


class Kept(Protocol):
    """An optimizer whose state can be kept in a checkpoint and restored from one."""

    def state_rows(self) -> dict[str, Tensor]:
        """The state as rows, name -> [rows, ...]."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_rows()`."""
        ...


OptimizerT = TypeVar("OptimizerT", bound=Kept)
Rows = Mapping[str, Tensor]
"""What a method keeps of each learner, name -> [local, ...]."""
NO_ROWS: Rows = MappingProxyType({})


class State(NamedTuple, Generic[OptimizerT]):
    """Where an algorithm is; `OptimizerT` is the kind of its optimizer."""

    step: int
    """Number of steps done, t."""
    x: Tensor
    """Weights w_j(t) of the hosted learners, [local, d], or the one shared row, [1, d]."""
    optimizer: OptimizerT
    """The optimizer with its state, which stays with its learner. A step changes it in place: of
    two states in a row only the later one can be gone on from."""
    rows: Rows = NO_ROWS
    """What the method itself keeps: trackers, momenta, masses, buffers. It goes into checkpoints
    by these names; a step leaves it as it was, and nothing else of a method lives on."""
    pending: Pending | None = None
    """An average that is under way, and waited for in a later step. What goes into it is among the
    rows: where a run goes on from a checkpoint there is None, and the step starts it again."""

    def arrived(self) -> "State[OptimizerT]":
        """The same with nothing under way; waits for what is. Collective."""
        if self.pending is None:
            return self
        self.pending()
        return self._replace(pending=None)


class Startable(Protocol):
    """What algorithms with and without a common step have in common."""

    shared: ClassVar[bool]
    """Whether all learners have one model in common, kept as a single row."""
    properties: ClassVar[Properties]
    """What is asked of W(t), of the optimizer and of a run."""
    pattern: ClassVar[Pattern]
    """What a step computes and sends, in order."""

    def init(self, x: Tensor, local: int) -> State[Any]:
        """Start `local` learners from the same weights x [d]."""
        ...


class Algorithm(Startable, Protocol):
    """One member of the family; see `gossip.algorithms.ALGORITHMS`."""

    def step(
        self,
        state: State[Any],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[Any], Step]:
        """One step; `state.x` is left as it was, the new state has rows of its own."""
        ...


@dataclass(frozen=True)
class Method:
    """What methods with a row for each learner have in common; see `Properties` for the rest."""

    shared: ClassVar[bool] = False
    properties: ClassVar[Properties] = Properties()
    flat_spread: ClassVar[FlatSpread | None] = None
    """Stationary variance of plain SGD without curvature, where there is a formula."""

    optimizer: Callable[[], FlatOptimizer]
    """Makes the optimizer; its state stays local."""

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """All learners start from x [d]."""
        rows = x.repeat(local, 1)
        return State(0, rows, self.optimizer(), self.start(rows))

    def start(self, x: Tensor) -> Rows:
        """What is kept beside weights x [local, d], at the beginning or after learners are lost."""
        return NO_ROWS
