r"""Averaging of what optimizers keep: momentum buffers, Adam's moments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, State, Step
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.optim.flat import FlatOptimizer


def averaged(x: Tensor, optimizer: FlatOptimizer, average: Callable[[Tensor], Tensor]) -> Tensor:
    """The average of weights x [local, d]; the optimizer goes on with that of its moments.

    Args:
        x: the hosted rows.
        optimizer: changed in place.
        average: of rows [local, m], as rows or as the one row [m] of all; one message.
    """
    moments = optimizer.moments()
    parts = [x, *(rows.flatten(1) for rows in moments.values())]
    whole = torch.cat(parts, dim=1)
    found = average(whole).expand_as(whole).split([part.shape[1] for part in parts], dim=1)
    pairs = zip(moments.items(), found[1:], strict=True)
    optimizer.replace_moments({name: part.reshape(rows.shape) for (name, rows), part in pairs})
    return found[0].contiguous()


@dataclass(frozen=True)
class MixedState(Method):
    r"""ATC that averages what the optimizer keeps as it does the weights.

    .. math::
        w \leftarrow W (w + u), \qquad m \leftarrow W m, \quad v \leftarrow W v

    for each quantity that the optimizer has of every weight: the buffer of momentum, Adam's two
    moments; counters stay. With SGD and momentum it is mixed-momentum. With W = 11^T/n and Adam it
    is not SSGD with Adam: v averages squares of gradients, and is larger than the square of an
    average by (1 - beta_2) times their variance. Of optimizers that keep squares W must have no
    negative weight, or v might be.

    - sent: a row along each edge, and another for each quantity, after the gradient
    - state: the optimizer's

    Reference: Nazari, Tarzanagh, Michailidis, "DAdam: a consensus-based distributed adaptive
    gradient method for online optimization", 2019, arXiv 1901.09109 (which keeps moments local).
    """

    properties: ClassVar[Properties] = Properties(shares_moments=True)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A row, and one for each quantity, after the gradient."""
        return (phases.LocalGradient(), phases.Mix(1 + self.optimizer().kept_per_weight))

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, then average weights and moments."""
        gradients = gradient(state.x)
        lr = rate(state.x, gradients)
        stepped = state.optimizer.step(state.x, gradients.values, lr)
        x_next = averaged(stepped, state.optimizer, lambda rows: comm.start_mix(rows, w)())
        return (
            State(state.step + 1, x_next, state.optimizer),
            Step(state.x, gradients.values, gradients.losses, x_next, lr),
        )
