r"""The effective rate that the learners' own gradients can tell, where nothing else is given.

Learner j adds u_j (minus alpha g_j for SGD) after its gradient g_j. Noises of different learners
do not multiply up, so sums over pairs of two learners are free of it,

.. math::
    \widehat{u \cdot g} = \frac{1}{n (n - 1)} \sum_{j \ne k} u_j \cdot g_k, \qquad
    \widehat{\|g\|^2} = \frac{1}{n (n - 1)} \sum_{j \ne k} g_j \cdot g_k, \qquad
    \hat\alpha_e = -\widehat{u \cdot g} \,/\, \widehat{\|g\|^2},

which is the mean of the split-half estimates over all splits of the learners into two halves, for
the price of one: n^2 times the product of the means, without its diagonal. Its standard error is
the jackknife's over learners, and what the noise in this one step's u_j moved beside the mean:

.. math::
    s^2 = \frac{n - 1}{n} \sum_l (\hat\alpha_e^{(-l)} - \bar\alpha_e)^2
    + \frac{\mathrm{var}_j (u_j \cdot \bar g_{-j})}{n\, \widehat{\|g\|^2}^2}

**What it cannot see.** The gradients were taken where the learners stand, not at the mean model.
What the distance between them does to the gradient, which is DPSGD's self-adjustment, is in
numerator and denominator alike: for plain SGD the estimate is alpha, whatever the truth. What it
does see is the optimizer: momentum, Adam's scaling, weight decay. For the loss w^4 / 4 and two
learners at w_a +- s it is too low by the factor 1 / (1 + 3 s^2 / w_a^2), exactly; where the loss is
quadratic there is no such bias. So its column has a name of its own.
"""

from math import nan, sqrt

import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor import Values

COLUMNS = {
    "alpha_e_own": "rate along the learners' own gradients, as pairs of learners tell it",
    "alpha_e_own_se": "its standard error, without what the learners' distance does",
    "noise_scale_batches": "tr(Sigma) / ||g||^2 of the learners' gradients, in mini-batches",
}
"""Column -> what it is."""
LEAST_FOR_ERROR = 4
"""Learners from which on leaving one out leaves pairs to compare."""


def own_rate(increments: Tensor, gradients: Tensor, comm: Communicator) -> Values:
    """The estimate from u_j and g_j of the hosted learners, [local, d] each. Collective.

    NaN where there is one learner, or the noise is larger than the signal.
    """
    n = comm.n
    if n == 1:
        return dict.fromkeys(COLUMNS, nan)
    u, g = increments.double(), gradients.double()
    u_a, g_a = comm.mean(torch.cat([u, g], dim=1)).chunk(2)
    own = torch.stack([(u * g).sum(1), g @ u_a, u @ g_a, (g * g).sum(1), g @ g_a], dim=1)
    ug, by_u, by_g, gg, by_mean = comm.gather(own.cpu()).T
    # Sums over ordered pairs of different learners; those without learner l, [n].
    signal = n * n * by_mean.mean() - gg.sum()
    along = n * n * by_g.mean() - ug.sum()
    signal_left = n * n * by_mean.mean() - 2 * n * by_mean + 2 * gg - gg.sum()
    along_left = n * n * by_g.mean() - n * (by_u + by_g) + 2 * ug - ug.sum()
    square = float(signal) / (n * (n - 1))
    if not square > 0:
        return dict.fromkeys(COLUMNS, nan)
    moved = (n * by_g - ug) / (n - 1)
    return {
        "alpha_e_own": -float(along / signal),
        "alpha_e_own_se": _standard_error(-along_left / signal_left, moved / square),
        "noise_scale_batches": float(gg.mean()) / square - 1,
    }


def _standard_error(left_out: Tensor, moved: Tensor) -> float:
    """Of the estimates without one learner, [n], and the learners' own parts, [n]."""
    n = len(left_out)
    if n < LEAST_FOR_ERROR:
        return nan
    jackknife = (n - 1) / n * float((left_out - left_out.mean()).square().sum())
    return sqrt(jackknife + float(moved.var()) / n)
