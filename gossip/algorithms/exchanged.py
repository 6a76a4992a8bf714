r"""SSGD whose learners exchange less than their gradients, and remember what they left out.

All have one model in common and step it along the same direction, to the bit; what a learner
remembers stays with it, a row for each.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.compressed import WithCompressor, keys, share_of_row
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer
from gossip.task import Gradients


@dataclass(frozen=True)
class Exchanged(Method):
    """What these have in common: gradients of all learners at the same weights."""

    shared: ClassVar[bool] = True
    properties: ClassVar[Properties] = Properties(
        leaves_out=False, steers=True, survives=False, exact_mean=False
    )

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """One shared row, x [d], and what each learner keeps."""
        return State(0, x.clone().unsqueeze(0), self.optimizer(), self.start(x.repeat(local, 1)))

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Agree on a direction, then one optimizer step; `w` plays no part."""
        points = state.x.repeat(len(comm.hosted), 1)
        gradients = gradient(points)
        direction, lr, rows = self.directed(state, gradients, rate, comm)
        x_next = state.optimizer.step(state.x, direction.unsqueeze(0), lr)
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(points, gradients.values, gradients.losses, state.x, lr),
        )

    @abstractmethod
    def directed(
        self,
        state: State[FlatOptimizer],
        gradients: Gradients,
        rate: LearningRate,
        comm: Communicator,
    ) -> "tuple[Tensor, float | Tensor, Rows]":
        """The direction [d], the learning rate along it, and what is kept of finding out."""


def in_order(payload: Tensor, comm: Communicator) -> Sequence[Tensor]:
    """All learners' payloads [1, bytes] in their order, from those here; sent to everybody."""
    comm.traffic.count_mix(comm.n - 1, payload.shape[1])
    return comm.gather(payload).split(1)


@dataclass(frozen=True)
class Ef21(WithCompressor, Exchanged):
    r"""EF21: all know an estimate of each learner's gradient, and are sent corrections.

    .. math::
        q_j = C(g_j - h_j), \qquad h_j \leftarrow h_j + q_j, \qquad
        w \leftarrow \mathrm{OPT}\Big(w, \frac1n \sum_j h_j\Big)

    Where gradients change slowly the corrections fade, so that with full gradients it ends at the
    minimum whatever C leaves out. With C the identity it is SSGD.

    - sent: C of one row to everybody, after the gradient; decoded in the order of learners, so that
      all have the same bits
    - state: h, and its mean
    - invariant: what is kept as the mean is that of h
    - W plays no part
    - defaults: top-k of 1 % (ours); h(0) = 0

    Reference: Richtarik, Sokolov, Fatkhullin, "EF21: a new, simpler, theoretically better, and
    practically faster error feedback", NeurIPS 2021, arXiv 2106.05203.
    """

    compressor: str = "top-k:0.01"
    """The operator and its numbers."""
    seed: int = 0
    """Of operators that draw: addressed by (seed, learner, step)."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        self.operator  # noqa: B018 - refuses a wrong text now

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and a payload for everybody."""
        return (phases.LocalGradient(), phases.AllGather(share_of_row(self.operator)))

    def start(self, x: Tensor) -> Rows:
        """Nothing is known of anybody."""
        return {"gradient_estimate": torch.zeros_like(x), "mean": torch.zeros_like(x)}

    def directed(
        self,
        state: State[FlatOptimizer],
        gradients: Gradients,
        rate: LearningRate,
        comm: Communicator,
    ) -> "tuple[Tensor, float | Tensor, Rows]":
        """Correct the estimates, here and of the mean, which is the direction."""
        g = gradients.values
        estimate, mean = state.rows["gradient_estimate"], state.rows["mean"]
        own = keys(self.seed, state.step, 0, comm)
        payload = self.operator.encode(g - estimate, own)
        decode = partial(self.operator.decode, d=g.shape[1], dtype=g.dtype)
        total = torch.zeros_like(mean[0])
        for each in in_order(payload, comm):
            total += decode(each)[0]
        mean = mean + total / comm.n
        rows = {"gradient_estimate": estimate + decode(payload), "mean": mean}
        return mean[0], rate(state.x, gradients, mean[0]), rows
