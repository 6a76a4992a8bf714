"""A learning-rate rule is a controller: an observation and its own state in, a rate out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gossip.checkpoint.tree import Parts, flattened, rebuilt
from gossip.comm.base import Communicator
from gossip.task import Gradients
from gossip.task.layers import Layer, layer_squares


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much a run may compute, in the units that warm-ups and decays are given in."""

    learners: int
    """n."""
    batch: int
    """B, samples of one learner in one step."""
    samples: int
    """N, training samples."""
    steps: float
    """Updates of the run, E N / (n B): a fraction where the run's length is given in epochs."""
    baseline_batch: int | None = None
    """B_0, the total batch the base rate belongs to; None: that of one learner, B."""

    @property
    def single_worker_steps(self) -> float:
        """T_1 = n T_n: batches of B in the whole run, or steps of one learner alone.

        Exact: batches run across epochs here, where LENA's authors drop what is left of an epoch.
        """
        return self.learners * self.steps

    @property
    def steps_per_epoch(self) -> float:
        """Updates in which all learners together draw N samples."""
        return self.samples / (self.learners * self.batch)

    @property
    def scale(self) -> float:
        """K = n B / B_0, how many times the batch is larger than the one the rate belongs to."""
        return self.learners * self.batch / (self.baseline_batch or self.batch)


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long a warm-up is, in one of three units; none of them: the method's default."""

    steps: int | None = None
    """Updates."""
    epochs: float | None = None
    """Passes over the training set; for legw those of the baseline."""
    share: float | None = None
    """Share of the run."""

    def updates(self, budget: Budget, default: float) -> float:
        """Length of the warm-up in updates; `default` is a share of the run."""
        if self.steps is not None:
            return float(self.steps)
        if self.epochs is not None:
            return self.epochs * budget.steps_per_epoch
        return budget.steps * (default if self.share is None else self.share)


@dataclass(frozen=True, kw_only=True)
class RateContext:
    """What the parts of a rule are made for; each knows those that were made before it."""

    budget: Budget
    layers: tuple[Layer, ...]
    lr: float
    """The base rate."""
    length: Length = Length()
    """Options of the warm-up."""
    nominal: float | None = None
    """Factor that the scaling aims at; None: nothing is scaled."""
    warmup: float = 0.0
    """Length of the warm-up in updates; 0 where the run itself decides it."""


@dataclass(frozen=True)
class Observation:
    """What a rule may look at when it sets the rate of step t, the gradient already there."""

    step: int
    """t."""
    x: Tensor
    """Weights that will be stepped, [rows, d]."""
    gradients: Gradients
    """Raw gradients of this step, one row per learner or the process's one shared row."""
    mean: Tensor | None
    """g_a [d], if the algorithm has averaged the gradients and will step the one row along it."""
    comm: Communicator
    """Communicator for statistics over all learners; a rule that needs none sends nothing."""
    span: "Span | None" = None
    """Where batches grow; None: from t to t + 1."""
    taken: Tensor | None = None
    """What the optimizer takes in the gradients' place, [rows, d], if the algorithm says so."""

    @property
    def direction(self) -> Tensor:
        """What the layer ratio is of, [rows, d]: `taken`, the mean, or each learner's own gradient.

        The last also where a method makes a tracker or a momentum of it: as that of an optimizer's
        momentum, the ratio is of what goes in.
        """
        if self.taken is not None:
            return self.taken
        return self.gradients.values if self.mean is None else self.mean.unsqueeze(0)


class Span(NamedTuple):
    """Where a step lies in the time of a run, which is counted in samples.

    The unit is n B samples, B the first batch: where batches do not grow, steps. Where they do, a
    larger one is that much longer, and the lengths of a run, its warm-up and its decay stay the
    same numbers of samples.
    """

    start: float
    """Time before the step."""
    end: float
    """Time after it."""
    lr_factor: float = 1.0
    """What a damper multiplies the learning rate by."""

    @property
    def length(self) -> float:
        """How many times this step's batch is larger than the first one."""
        return self.end - self.start


class Norms(NamedTuple):
    """Gradient norms by layer, over all learners; float64 [layers] on the CPU, the same everywhere.

    A rule is a few numbers' worth of arithmetic on them.
    """

    squares: Tensor
    """(1/n) sum_i ||g_i||^2 of raw gradients."""
    square_of_mean: Tensor
    """||g_a||^2."""

    @property
    def finite(self) -> bool:
        """Whether moving averages may take them in."""
        return bool(torch.isfinite(torch.stack(self)).all())

    def of_first_batch(self, times: float, learners: int) -> "Norms":
        r"""What they would be, on average, with batches as small as the first.

        .. math::
            \|g_i\|^2 + (q - 1) v, \qquad \|g_a\|^2 + (q - 1) v / n, \qquad
            v = \tfrac{n}{n-1} (\overline{\|g_i\|^2} - \|g_a\|^2)

        for batches q times as large: v is the variance of a learner's gradient. A rule's scale
        belongs to the first batch; that it grows is the damper's affair.
        """
        if learners == 1 or times == 1:
            return self
        excess = (times - 1) * (self.squares - self.square_of_mean) * learners / (learners - 1)
        return Norms(self.squares + excess, self.square_of_mean + excess / learners)


def norms(observation: Observation, layers: tuple[Layer, ...]) -> Norms:
    """Measure `Norms`: one collective of [layers] float64 beyond the average of the gradients.

    That average is at hand in the synchronous algorithms; DPSGD has none, and pays for it here.
    """
    gradients, comm = observation.gradients, observation.comm
    squares = gradients.squares
    if squares is None:
        squares = layer_squares(gradients.values, layers)
    mean = observation.mean
    if mean is None:
        mean = comm.mean(gradients.values)
    square_of_mean = layer_squares(mean.unsqueeze(0), layers)[0]
    return Norms(comm.mean(squares).cpu(), square_of_mean.cpu())


class Rated(NamedTuple):
    """What a rule says about one step."""

    lr: "float | Tensor"
    """One number, one per layer [layers], or one per learner and layer [rows, layers]."""
    state: Any
    """The rule's state for the next step."""
    progress: float
    """Share of the budget done after this step; the run ends at 1."""
    values: Callable[[], Mapping[str, float]] = dict
    """What the trace keeps of it, by column; only called where the trace has a row."""


class Rule(Protocol):
    """Learning rate = base x scaling x warm-up x decay x layer ratio."""

    @property
    def needs_norms(self) -> bool:
        """Whether every learner's own gradient norms are needed, not only the sum's."""
        ...

    @property
    def counts_tau(self) -> bool:
        """Whether the run ends by the rule's own time, after up to n times as many steps."""
        ...

    @property
    def per_layer(self) -> bool:
        """Whether the rate is more than one number: one per layer, or per learner and layer."""
        ...

    @property
    def most_steps(self) -> float:
        """Updates at most."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the trace that `Rated.values` may fill."""
        ...

    def init(self) -> Any:
        """The state before step 0."""
        ...

    def update(self, observation: Observation, state: Any) -> Rated:
        """The rate of this step, and the next state."""
        ...


class LearningRate(Protocol):
    """The learning rate of a step."""

    def __call__(
        self,
        x: Tensor,
        gradients: Gradients,
        mean: Tensor | None = None,
        taken: Tensor | None = None,
    ) -> "float | Tensor":
        """One number, one per layer [layers], or one per learner and layer [rows, layers].

        Args:
            x: weights that will be stepped, [rows, d].
            gradients: raw gradients.
            mean: g_a [d], where the step of the one row goes along the average of all gradients.
            taken: what the optimizer takes in the gradients' place, [rows, d].
        """
        ...


class Controller:
    """A rule at work: `at(t)` takes its state from step to step, so the loop need not know it."""

    def __init__(self, rule: Rule, comm: Communicator) -> None:
        self.state = rule.init()
        self.progress = 0.0
        self.values: Callable[[], Mapping[str, float]] = dict
        self._rule, self._comm = rule, comm

    def snapshot(self) -> Parts:
        """Numbers and tensors that the next step depends on, the same on all processes."""
        numbers, tensors = flattened(self.state, "rates")
        return {**numbers, "progress": self.progress}, tensors

    def restore(self, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Go on from a `snapshot`.

        Raises:
            KeyError, ValueError: it is not one of this rule.
        """
        self.state = rebuilt(self._rule.init(), "rates", numbers, tensors)
        self.progress = float(numbers["progress"])

    def at(self, t: int, span: Span | None = None) -> "LearningRate":
        """The rate of step t as a function of its weights and gradients.

        The function takes the rule's state from step t to t + 1, so it is called once a step; a
        step that is never taken, and so does not call it, leaves the state as it was.
        """

        def rate(
            x: Tensor,
            gradients: Gradients,
            mean: Tensor | None = None,
            taken: Tensor | None = None,
        ) -> "float | Tensor":
            seen = Observation(t, x, gradients, mean, self._comm, span, taken)
            rated = self._rule.update(seen, self.state)
            self.state, self.progress, self.values = rated.state, rated.progress, rated.values
            return rated.lr

        return rate
