r"""How far the learners are apart: sigma_w^2 in its several units, and the consensus distance.

With delta w_j = w_j - w_a the deviation of learner j from the mean model. Two quantities of the
paper bear the name sigma_w^2; they differ by the factor (n - 1) d / n^2, or d / n where the
deviations are noise about a centre that is known; see
docs/mathematics.md#two-variances-named-sigma.

Reference: arXiv 2112.01433, below Eq. 5 (trace of C) and Theorem 1 (per coordinate).
"""

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor.base import Moment


class MeanModel(NamedTuple):
    """Averages over all learners, each [d] float64 and the same in every process."""

    weights: Tensor
    """w_a(t)."""
    displacement: Tensor
    """Delta w_a = w_a(t+1) - w_a(t)."""
    gradient: Tensor
    """g_a, the mean of the stochastic gradients at `Moment.points`."""
    mixed: Tensor
    """Mean of W X; w_a(t) again if W is doubly stochastic."""


class Spread(NamedTuple):
    """Sums over all learners of squared distances, float64."""

    points: float
    """Sum of ||delta w_j||^2, where the gradients are taken: the noise, for SSGD*."""
    weights: float
    """The same of the weights w_j(t); 0 for one shared model."""
    mixed: float
    """The same of W X about its own mean: what is left after averaging with neighbours."""
    largest_gradient: float
    """max_j ||g_j||; ||g_a|| for SSGD, which keeps no gradient of a single learner."""


def mean_model(moment: Moment, comm: Communicator) -> MeanModel:
    """Averages over the learners, in one collective; one shared model is its own mean, exactly."""
    if moment.is_shared(comm):
        weights = moment.x[0].double()
        gradient = comm.mean(_local_mean(moment.gradients).unsqueeze(0))
        return MeanModel(weights, moment.x_next[0].double() - weights, gradient, weights)
    parts = (moment.x, moment.x_next, moment.gradients, moment.mixed)
    packed = torch.cat([_local_mean(part) for part in parts])
    weights, following, gradient, mixed = comm.mean(packed.unsqueeze(0)).chunk(4)
    return MeanModel(weights, following - weights, gradient, mixed)


def spread(moment: Moment, mean: MeanModel, comm: Communicator) -> Spread:
    """Squared distances from the mean model, in one collective of 4 numbers per learner.

    Summed in the order of the learners, so that no number of processes changes the sums.
    """
    weights_squares = squared_norms(moment.x, mean.weights)
    elsewhere = moment.points is not moment.x
    squares = [
        squared_norms(moment.points, mean.weights) if elsewhere else weights_squares,
        weights_squares,
        squared_norms(moment.mixed, mean.mixed),
        squared_norms(moment.gradients),
    ]
    local = len(comm.hosted)
    columns = comm.gather(torch.stack([s.expand(local) for s in squares], dim=1).contiguous())
    points, weights, mixed, _ = columns.sum(dim=0).tolist()
    if moment.is_shared(comm):
        weights = mixed = 0.0
        if points == 0:
            return Spread(points, weights, mixed, float(mean.gradient.norm()))
    return Spread(points, weights, mixed, float(columns[:, 3].max().sqrt()))


def squared_norms(rows: Tensor, center: Tensor | float = 0.0) -> Tensor:
    """||row - center||^2 of each row, [rows] float64, one row at a time to save memory."""
    return torch.stack([(row.double() - center).square().sum() for row in rows])


def sigma_w2(square_sum: float, n: int) -> float:
    r"""The variance of the mean of n independent learners, as plotted in the paper (its Fig. 2b).

    .. math:: \sigma_w^2 = \mathrm{Tr}\, C = \frac{1}{n^2} \sum_j \|\delta w_j\|^2

    Args:
        square_sum: sum of ||delta w_j||^2 over the learners.
        n: number of learners.
    """
    return square_sum / n**2


def sigma_w2_coord(square_sum: float, n: int, d: int, *, known_centre: bool = False) -> float:
    r"""Variance of one coordinate, the sigma_w^2 of Theorem 1, without bias.

    .. math:: \frac{1}{(n - 1)\, d} \sum_j \|\delta w_j\|^2

    where the delta w_j are deviations from their own mean, which takes one of n degrees of freedom;
    0 for a single learner, which does not deviate from itself. About a known centre (SSGD*'s noise,
    if it is not centred) it is 1 / (n d) instead.
    """
    degrees = n if known_centre else max(n - 1, 1)
    return square_sum / (degrees * d)


def consensus_distance(square_sum: float, n: int) -> float:
    r"""Root mean square distance of the learners' weights from their mean, in units of weights.

    .. math:: \Xi = \sqrt{\frac1n \sum_j \|\delta w_j\|^2}

    The literature also calls its square the consensus distance; Xi^2 = n sigma_w^2.
    """
    return sqrt(square_sum / n) if square_sum >= 0 else square_sum


def _local_mean(rows: Tensor) -> Tensor:
    return rows.mean(dim=0, dtype=torch.float64)
