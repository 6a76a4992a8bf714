"""CHOCO-SGD in both orders: neighbours know estimates, and are sent corrections of them."""

from dataclasses import dataclass

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Rows, State, Step
from gossip.algorithms.compressed import Estimating
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class ChocoAtc(Estimating):
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
