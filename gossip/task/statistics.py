"""BatchNorm's running statistics of averaged weights: pooled over learners, or measured anew."""

import numpy as np
import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.task.layers import NORM
from gossip.task.row_model import RowModel
from gossip.task.samples import RECALIBRATION_CHUNK, Samples, chunks


def pooled(model: RowModel, buffers: Tensor, comm: Communicator) -> Tensor:
    """Running statistics [b] of all learners as of one: means, and variances as E[x^2] - E[x]^2.

    Args:
        model: whose they are.
        buffers: of the hosted learners, [local, b].
        comm: collective.
    """
    moments = buffers.double().clone()
    pairs = list(zip(model.buffers[::2], model.buffers[1::2], strict=True))
    for mean, var in pairs:
        moments[:, var.start : var.stop] += moments[:, mean.start : mean.stop].square()
    found = comm.mean(moments)
    for mean, var in pairs:
        found[var.start : var.stop] -= found[mean.start : mean.stop].square()
    return found.to(model.dtype)


def recalibrated(model: RowModel, row: Tensor, samples: Samples, indices: np.ndarray) -> Tensor:
    """Running statistics [b] that belong to the weights `row` [d].

    The mean over chunks of the given samples of each chunk's mean and unbiased variance, as in one
    pass over them with momentum 1/k: averaged weights make each learner's own statistics invalid.
    """
    total, count = torch.zeros_like(model.first_buffers, dtype=torch.float64), 0
    momenta = {m: m.momentum for m in model.module.modules() if isinstance(m, NORM)}
    for module in momenta:
        module.momentum = 1.0
    try:
        with torch.no_grad(), model.drawing_nothing():
            parameters = model.parameters(row)
            for inputs, _ in chunks(samples, indices, RECALIBRATION_CHUNK):
                own = model.first_buffers.clone()
                model.logits(parameters | model.named_buffers(own), inputs)
                total += own
                count += 1
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
    return (total / count).to(model.dtype)
