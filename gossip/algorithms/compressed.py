r"""Compressed messages: CHOCO in both orders, DCD, ECD, DeepSqueeze, BEER.

C is an operator of `gossip.compress`, named by the option ``compressor`` as top-k:0.01. The mean of
the weights moves by the mean increment whatever C leaves out, for what is added to one learner is
taken from others. Averaging C(w) itself would lose the mean, and w + (W - I) C(w) stalls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator, Pending
from gossip.compress import Operator, operator
from gossip.errors import UserError
from gossip.optim.flat import FlatOptimizer
from gossip.streams import COMPRESSION, generator
from gossip.task.layers import Layer

LARGE = 1_000_000
"""Numbers of a model from which a pattern takes the share of a row that a payload is."""


def share_of_row(operator: Operator) -> float:
    """What a payload is of a row of many float32 numbers."""
    return operator.size(LARGE, 4) / (4 * LARGE)


def length(layers: Sequence[Layer]) -> int:
    """Numbers of a row with these layers; `LARGE` where they are not known."""
    return layers[-1].stop if layers else LARGE


def keys(seed: int, t: int, number: int, comm: Communicator) -> Tensor:
    """Of payload `number` in step t of the hosted learners, for operators that draw, [local]."""
    draws = (generator(seed, COMPRESSION, j, t, number) for j in comm.hosted)
    return torch.tensor([int(own.integers(2**63)) for own in draws])


@dataclass(frozen=True)
class CompressedMethod:
    """What methods with an option `compressor` have in common."""

    compressor: str
    """The operator and its numbers."""

    @cached_property
    def operator(self) -> Operator:
        """C."""
        return operator(self.compressor)

    def check(self, d: int) -> None:
        """Refuse an operator that does not fit a model of d numbers.

        Raises:
            UserError: it does not.
        """
        self.operator.check(d)

    def payload_bytes(self, d: int, itemsize: int) -> int:
        """Of a message."""
        return self.operator.size(d, itemsize)


@dataclass(frozen=True)
class _Compressed(CompressedMethod, Method):
    """A method whose messages are payloads of an operator."""

    properties: ClassVar[Properties] = Properties(
        columns="always", static=True, leaves_out=False, rounds=False
    )
    per_step: ClassVar[int] = 1
    """Payloads that leave in a step."""

    compressor: str = "top-k:0.01"
    """The operator and its numbers."""
    gamma: float = 0.1
    """gamma, in (0, 1]: how far a step goes towards the neighbours' estimates."""
    seed: int = 0
    """Of operators that draw: addressed by (seed, learner, step)."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        self.operator  # noqa: B018 - refuses a wrong text now
        if not 0 < self.gamma <= 1:
            raise UserError(f"gamma={self.gamma}: it is a share, in (0, 1]")

    @property
    def share(self) -> float:
        """What a payload is of a row of many float32 numbers."""
        return self.per_step * share_of_row(self.operator)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A payload's share of a row, after the gradient."""
        return (phases.LocalGradient(), phases.Mix(self.share))

    def payload_bytes(self, d: int, itemsize: int) -> int:
        """Sent along each edge in a step."""
        return self.per_step * super().payload_bytes(d, itemsize)

    def send(self, x: Tensor, w: csr_array, t: int, comm: Communicator) -> tuple[Tensor, Pending]:
        """C(x) of the hosted learners, and W C(x) on its way: of `per_step` rows side by side."""
        parts = x.tensor_split(self.per_step, dim=1)
        payloads = [
            self.operator.encode(part, keys(self.seed, t, number, comm))
            for number, part in enumerate(parts)
        ]
        payload = torch.cat(payloads, dim=1)
        decode = partial(self._decode, d=parts[0].shape[1], dtype=x.dtype)
        return decode(payload), comm.start_mix(payload, w, decode)

    def _decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        parts = payload.tensor_split(self.per_step, dim=1)
        return torch.cat([self.operator.decode(part, d, dtype) for part in parts], dim=1)


@dataclass(frozen=True)
class _Estimating(_Compressed):
    """A method whose learners keep estimates of each other's weights, and are sent corrections."""

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """All learners start from x [d], and know it of each other."""
        rows = x.repeat(local, 1)
        known = {"estimate": rows, "neighbours": rows}
        return State(0, rows, self.optimizer(), {**self.start(rows), **known})


@dataclass(frozen=True)
class ChocoAtc(_Estimating):
    r"""CHOCO-SGD: neighbours know estimates of each other's weights, and are sent corrections.

    .. math::
        h = w + u, \quad q = C(h - \hat w), \quad \hat w \leftarrow \hat w + q, \quad
        s_j \leftarrow s_j + \sum_k W_{jk} q_k, \quad w \leftarrow h + \gamma (s - \hat w)

    with s = W \hat w, one buffer for all neighbours. With C the identity and gamma = 1 it is ATC.

    - sent: C of one row along each edge, after the gradient
    - state: \hat w, s
    - starts: \hat w = w(0), which all have in common; from nothing where learners are lost
    - needs: the same W at every step, for s
    - defaults: top-k of 1 %, gamma 0.1 (ours; the authors' go from 0.01 to 0.5 with the operator.
      The theorem's gamma is much smaller and no default)

    Reference: Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip
    algorithms with compressed communication", ICML 2019, arXiv 1902.00340.
    """

    def start(self, x: Tensor) -> Rows:
        """Nothing is known of anybody."""
        return {"estimate": torch.zeros_like(x), "neighbours": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, correct the estimates, go towards those of the neighbours."""
        x, rows = state.x, state.rows
        gradients = gradient(x)
        lr = rate(x, gradients)
        h = state.optimizer.step(x, gradients.values, lr)
        q, mixing = self.send(h - rows["estimate"], w, state.step, comm)
        estimate = rows["estimate"] + q
        neighbours = rows["neighbours"] + mixing()
        x_next = h + self.gamma * (neighbours - estimate)
        kept = {"estimate": estimate, "neighbours": neighbours}
        return (
            State(state.step + 1, x_next, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )


@dataclass(frozen=True)
class ChocoAwc(ChocoAtc):
    r"""CHOCO-SGD, averaging while computing.

    .. math::
        q = C(w - \hat w), \quad \hat w \leftarrow \hat w + q, \quad s \leftarrow s + W q, \quad
        w \leftarrow w + u + \gamma (s - \hat w)

    The payload leaves before the gradient, so that it travels meanwhile. With C the identity and
    gamma = 1 it is DPSGD.

    - sent: C of one row along each edge, while the gradient is computed
    - state, starts, needs and defaults: as `ChocoAtc`

    Reference: Koloskova, Lin, Stich, Jaggi, "Decentralized deep learning with arbitrary
    communication compression", ICLR 2020, arXiv 1907.09356.
    """

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """The payload's share of a row."""
        return (phases.Overlapped(phases.Mix(self.share), phases.LocalGradient()),)

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Send corrections of the estimates, compute the gradient, go towards the neighbours'."""
        x, rows = state.x, state.rows
        q, mixing = self.send(x - rows["estimate"], w, state.step, comm)
        gradients = gradient(x)
        lr = rate(x, gradients)
        stepped = state.optimizer.step(x, gradients.values, lr)
        estimate = rows["estimate"] + q
        neighbours = rows["neighbours"] + mixing()
        towards = self.gamma * (neighbours - estimate)
        kept = {"estimate": estimate, "neighbours": neighbours}
        return (
            State(state.step + 1, stepped + towards, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, x + towards, lr),
        )


@dataclass(frozen=True)
class Dcd(_Compressed):
    r"""DCD-PSGD: learners hold each other's weights exactly, since they move by what is sent.

    .. math:: w(t+1) = w(t) + C(W w(t) + u - w(t))

    with s = W w kept up to date by s <- s + W C(...). With C the identity it is DPSGD. The operator
    should be precise: with an aggressive one it may diverge.

    - sent: C of one row along each edge, after the gradient
    - state: s
    - needs: the same W at every step, for s; all learners to begin alike, so a run that loses some
      goes on from a checkpoint
    - defaults: int8 by blocks of 256 (ours)

    Reference: Tang, Gan, Zhang, Zhang, Liu, "Communication compression for decentralized training",
    NeurIPS 2018, arXiv 1803.06443.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always", static=True, leaves_out=False, rounds=False, survives=False
    )

    compressor: str = "int8"
    """The operator and its numbers."""
    gamma: float = field(default=1.0, init=False)

    def start(self, x: Tensor) -> Rows:
        """W w = w where all are alike."""
        return {"neighbours": x}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Move by what others can be told of the step."""
        x, mixed = state.x, state.rows["neighbours"]
        gradients = gradient(x)
        lr = rate(x, gradients)
        stepped = state.optimizer.step(x, gradients.values, lr)
        q, mixing = self.send(mixed - x + (stepped - x), w, state.step, comm)
        kept = {"neighbours": mixed + mixing()}
        return (
            State(state.step + 1, x + q, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )


@dataclass(frozen=True)
class Ecd(Dcd):
    r"""ECD-PSGD: learners are sent extrapolations, and estimate each other's weights from them.

    .. math::
        w(t+1) = W \hat w(t) + u, \qquad
        z = (1 - \tfrac t2) w(t) + \tfrac t2 w(t+1), \qquad
        \hat w(t+1) = (1 - \tfrac2t) \hat w(t) + \tfrac2t C(z)

    with t from 1 and s = W \hat w for all neighbours, one's own estimate among them. The factor 2/t
    makes the variance of an unbiased C fade from the estimates as 1/t, but z grows with t, and so
    does what C does to it. With C the identity it is DPSGD. Only the expectation of the mean moves
    by the mean increment.

    - sent: C of one row along each edge, after the gradient
    - state: s
    - needs: as `Dcd`
    - defaults: QSGD with 255 levels (ours); C should be unbiased
    - float32 loses digits in z after some 1e4 steps

    Reference: Tang, Gan, Zhang, Zhang, Liu, "Communication compression for decentralized training",
    NeurIPS 2018, arXiv 1803.06443.
    """

    compressor: str = "qsgd:255"
    """The operator and its numbers."""

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Go from the estimates by the increment, tell where that leads."""
        x, mixed, t = state.x, state.rows["neighbours"], state.step + 1
        gradients = gradient(x)
        lr = rate(x, gradients)
        x_next = state.optimizer.increment(x, gradients.values, lr)(mixed, torch.empty_like(x))
        _, mixing = self.send((1 - t / 2) * x + t / 2 * x_next, w, state.step, comm)
        kept = {"neighbours": (1 - 2 / t) * mixed + 2 / t * mixing()}
        return (
            State(t, x_next, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, mixed, lr),
        )


@dataclass(frozen=True)
class DeepSqueeze(_Compressed):
    r"""DeepSqueeze: the error of a message is added to the next.

    .. math::
        v = w + u + e, \quad q = C(v), \quad e \leftarrow v - q, \quad
        w_j \leftarrow w_j + u_j + \gamma \sum_k W_{jk} (q_k - q_j)

    Nothing is known of the neighbours, so W may change at every step. But weights are compressed
    and not how they change: learners stay as far apart as what C leaves out of the weights, so C
    should be precise. With C the identity and gamma = 1 it is ATC.

    - sent: C of one row along each edge, after the gradient
    - state: e
    - defaults: int4 by blocks of 32, gamma 0.1 (ours)

    Reference: Tang et al., "DeepSqueeze: decentralization meets error-compensated compression",
    2019, arXiv 1907.07346.
    """

    properties: ClassVar[Properties] = Properties(columns="always", leaves_out=False, rounds=False)

    compressor: str = "int4"
    """The operator and its numbers."""

    def start(self, x: Tensor) -> Rows:
        """No error yet."""
        return {"error": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, send it with what was left out before, go towards what the others send."""
        x = state.x
        gradients = gradient(x)
        lr = rate(x, gradients)
        stepped = state.optimizer.step(x, gradients.values, lr)
        v = stepped + state.rows["error"]
        q, mixing = self.send(v, w, state.step, comm)
        x_next = stepped + self.gamma * (mixing() - q)
        return (
            State(state.step + 1, x_next, state.optimizer, {"error": v - q}),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )


@dataclass(frozen=True)
class Beer(_Estimating):
    r"""BEER: compressed gradient tracking, with an estimate of weights and one of trackers.

    .. math::
        \hat w \leftarrow \hat w + C(w - \hat w), \qquad \hat v \leftarrow \hat v + C(v - \hat v)

    .. math::
        v \leftarrow v + \gamma (W - I) \hat v + g(t) - g(t-1), \qquad
        w \leftarrow w + \gamma (W - I) \hat w - \alpha v, \qquad v(0) = g(0)

    The optimizer takes v in the place of g. Exact for different data with a constant alpha,
    whatever C. With C the identity and gamma = 1 it is gradient tracking (AWC).

    - sent: C of two rows along each edge, while the gradient is computed
    - state: \hat w, W \hat w, v, \hat v, W \hat v, g
    - invariant: mean(v) = mean(g)
    - needs: the same W at every step, for W \hat w and W \hat v
    - defaults: top-k of 1 %; gamma 0.1 (the authors')

    Reference: Zhao et al., "BEER: fast O(1/T) rate for decentralized nonconvex optimization with
    communication compression", NeurIPS 2022, arXiv 2201.13320.
    """

    properties: ClassVar[Properties] = replace(_Compressed.properties, steers=True)
    per_step: ClassVar[int] = 2

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """The payloads' share of a row."""
        return (phases.Overlapped(phases.Mix(self.share), phases.LocalGradient()),)

    def start(self, x: Tensor) -> Rows:
        """Nothing is known of anybody, and no gradient yet: v becomes the first one."""
        names = (
            "estimate",
            "neighbours",
            "tracker",
            "tracker_estimate",
            "tracker_neighbours",
            "gradient",
        )
        return dict.fromkeys(names, torch.zeros_like(x))

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Correct both estimates while the gradient is computed, track, follow the tracker."""
        x, t, rows = state.x, state.step, state.rows
        v = rows["tracker"]
        both = torch.cat((x - rows["estimate"], v - rows["tracker_estimate"]), dim=1)
        sent, mixing = self.send(both, w, t, comm)
        gradients = gradient(x)
        lr = rate(x, gradients)
        (q, q_v), (mixed, mixed_v) = sent.chunk(2, dim=1), mixing().chunk(2, dim=1)
        estimate, neighbours = rows["estimate"] + q, rows["neighbours"] + mixed
        estimate_v = rows["tracker_estimate"] + q_v
        neighbours_v = rows["tracker_neighbours"] + mixed_v
        v = v + self.gamma * (neighbours_v - estimate_v) + gradients.values - rows["gradient"]
        towards = self.gamma * (neighbours - estimate)
        kept = {
            "estimate": estimate,
            "neighbours": neighbours,
            "tracker": v,
            "tracker_estimate": estimate_v,
            "tracker_neighbours": neighbours_v,
            "gradient": gradients.values,
        }
        x_next = state.optimizer.step(x, v, lr) + towards
        return (
            State(t + 1, x_next, state.optimizer, kept),
            Step(x, gradients.values, gradients.losses, x + towards, lr),
        )
