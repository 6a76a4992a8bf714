r"""Where Delta comes from: mini-batches, or learners that stand in different places.

Let g_S be the mean gradient of the same mini-batches, all taken at the mean model, and
d = g_a - g_S. Then, for P the projection across g,

.. math::
    \alpha^2 \|P g_a\|^2 = \underbrace{\alpha^2 \|P g_S\|^2}_{\Delta_S}
    + \underbrace{2 \alpha^2 \langle P g_S, P d \rangle}_{\Delta_{cross}}
    + \underbrace{\alpha^2 \|P d\|^2}_{\Delta^{(2)}_\perp}

exactly. The paper writes Delta = Delta_S + Delta^(2) with Delta^(2) = alpha^2 ||d||^2 (Eq. 5):
that has no cross term and no projection, so it holds only on average and roughly. In one
measured step Delta^(2) was three times Delta.

Reference: arXiv 2112.01433, Eq. 5; the exact split is ours.
"""

from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor.base import Moment
from gossip.monitor.effective_rate import MeanModelGradient, alpha_e_sgd, perpendicular_product
from gossip.monitor.spread import MeanModel
from gossip.task import Task


def gradient_at_mean(task: Task, moment: Moment, mean: MeanModel, comm: Communicator) -> Tensor:
    r"""The same mini-batches' mean gradient at the mean model, [d] float64; one collective.

    .. math:: g_S = \frac1n \sum_j \nabla L^{\mu_j}(w_a)
    """
    row = mean.weights.to(task.dtype).unsqueeze(0)
    batches = moment.inputs, moment.labels
    gradient = task.gradient(row, *batches, seeds=moment.seeds, exact=True).values
    return comm.mean(gradient.double())


def noise_split(lr: float, g_a: Tensor, g_s: Tensor, g: MeanModelGradient) -> dict[str, float]:
    r"""Delta of SGD and its exact parts, in squared units of the weights.

    Args:
        lr: alpha.
        g_a: mean stochastic gradient at the learners' own weights, [d].
        g_s: mean gradient of the same mini-batches at the mean model, [d].
        g: full gradient at the mean model.

    Returns:
        alpha_e_s: alpha (g_S . g) / ||g||^2.
        delta_s: what the mini-batches alone cause.
        delta2: alpha^2 ||d||^2, the paper's Eq. 5, neither projected nor averaged.
        delta2_perp: its part across g.
        delta_cross: the cross term, of either sign.
        delta2_diff: delta - delta_s for SGD, as the sum of the two terms before.
    """
    d = g_a - g_s
    cross = 2 * lr * lr * perpendicular_product(g_s, d, g)
    perp = lr * lr * perpendicular_product(d, d, g)
    return {
        "alpha_e_s": alpha_e_sgd(lr, g_s, g),
        "delta_s": lr * lr * perpendicular_product(g_s, g_s, g),
        "delta2": lr * lr * float(d @ d),
        "delta2_perp": perp,
        "delta_cross": cross,
        "delta2_diff": cross + perp,
    }
