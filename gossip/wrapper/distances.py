"""Spread of the learners, computed from their weights and gradients alone."""

import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor.spread import consensus_distance, sigma_w2, sigma_w2_coord, squared_norms
from gossip.wrapper.shards import gradient_of
from gossip.wrapper.weights import Weights


def measured(weights: Weights, comm: Communicator) -> dict[str, float]:
    """How far the learners are apart, and how large their gradients are. Collective.

    Returns:
        The columns of `gossip.monitor` that need no more: sigma_w2, sigma_w2_coord,
        consensus_distance, grad_a_norm (of the mean of the gradients), and grad_norm_max, the
        largest of a single learner; a parameter without a gradient counts as 0.
    """
    # [distance from the mean model, own gradient, mean gradient], all squared
    squares = torch.zeros(3, dtype=torch.float64)
    gradients = weights.once(_gradients(weights))
    for row, gradient in zip(weights.once(weights.rows()), gradients, strict=True):
        mean, mean_gradient = comm.mean(torch.cat([row, gradient], dim=1).double()).chunk(2)
        squares[0] += squared_norms(row, mean).cpu()[0]
        squares[1] += squared_norms(gradient).cpu()[0]
        squares[2] += mean_gradient.square().sum().cpu()
    everyone = comm.gather(squares.unsqueeze(0))
    distance, n = float(everyone[:, 0].sum()), comm.n
    return {
        "sigma_w2": sigma_w2(distance, n),
        "sigma_w2_coord": sigma_w2_coord(distance, n, weights.d),
        "consensus_distance": consensus_distance(distance, n),
        "grad_a_norm": float(everyone[0, 2].sqrt()),
        "grad_norm_max": float(everyone[:, 1].max().sqrt()),
    }


def _gradients(weights: Weights) -> list[Tensor]:
    """As rows, [1, d] each; the gradient of what is tied is the sum."""
    rows = [torch.zeros_like(like) for like in weights.like]
    for slot in weights.slots.values():
        if (gradient := slot.parameter.grad) is not None:
            slot.part(rows).add_(gradient_of(slot.parameter, gradient))
    return rows
