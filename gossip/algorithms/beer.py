"""BEER: gradient tracking with compressed weights and trackers."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Rows, State, Step
from gossip.algorithms.compressed import CompressedMethod, Estimating
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class Beer(Estimating):
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

    properties: ClassVar[Properties] = replace(CompressedMethod.properties, steers=True)
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
