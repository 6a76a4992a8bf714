"""The monitor's view of one step, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from gossip.comm.base import Communicator


@dataclass(frozen=True)
class Moment:
    """Iteration t as a monitor sees it, before and after the update; nothing in it may be written.

    rows is local (one row per hosted learner), or 1 for algorithms that keep one shared model.
    """

    step: int
    """t."""
    lr: float
    """Nominal learning rate alpha (the mean over layers where a rule gives one per layer)."""
    x: Tensor
    """Weights w_j(t), [rows, d]; their mean over all learners is w_a(t)."""
    points: Tensor
    """Where the gradients were taken, [local or 1, d]: w_j(t), or w_a(t) + delta_j for SSGD*."""
    gradients: Tensor
    """Raw stochastic gradients g_j at `points`, [local or 1, d]."""
    mixed: Tensor
    """W(t) X(t), [rows, d]; x itself where nothing is mixed."""
    x_next: Tensor
    """w_j(t+1), [rows, d]."""
    inputs: Tensor
    """This step's mini-batches mu_j(t), [local, batch, *input_shape]."""
    labels: Tensor
    """[local, batch]."""
    shared: bool = False
    """Whether x is one model of all learners (SSGD, SSGD*); one row for several says so too."""
    known_centre: bool = False
    """Whether `points` were drawn about w_a, so that their deviations need not sum to 0."""

    seeds: tuple[int, ...] | None = None
    """Of what each hosted learner's model drew at this step, [local]; None: nothing."""
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    """What the method keeps beside the weights, after the update, name -> [local, ...]."""
    flat_spread: float | None = None
    """Stationary n sigma_w^2 of gradients that are noise of variance 1, with alpha = 1 and no
    curvature; None: no formula for this method and W."""

    def is_shared(self, comm: Communicator) -> bool:
        """Whether x is one model; the row of a lone learner does not tell, so `shared` must."""
        return self.shared or len(self.x) < len(comm.hosted)


Values = dict[str, float]
"""Column name -> value: what one monitor adds to a row of the trace."""


def shares_of(indices: np.ndarray, comm: Communicator, *, by_learner: bool) -> list[np.ndarray]:
    """The hosted learners' parts of `indices`: in one piece, or one by one.

    One by one where samples that are walked through together influence each other (BatchNorm), so
    that nothing depends on how learners are spread over processes.
    """
    hosted = [range(j, j + 1) for j in comm.hosted] if by_learner else [comm.hosted]
    parts = [share_of(indices, part, comm.n) for part in hosted]
    return [part for part in parts if len(part)]


def share_of(indices: np.ndarray, hosted: range, n: int) -> np.ndarray:
    """The part of `indices` that the hosted learners walk through, of n nearly equal parts."""
    size = len(indices)
    return indices[hosted.start * size // n : hosted.stop * size // n]
