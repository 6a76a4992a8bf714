r"""How curved the loss is along its own gradient, and the step that curvature allows.

.. math:: L(x, g) = \frac{g^\top \nabla^2 f(x)\, g}{\|g\|^2}, \qquad g = \nabla f(x)

On a quadratic, 1 / L is the step of an exact line search. f is the loss on a fixed probe of the
training set, so that runs with other batch sizes, seeds or learners are measured on the same
samples, and so is every step.

Hessian-vector products are exact, those of nn.LSTM too: PyTorch's CPU kernels have a second
derivative, which central differences along g confirm to six digits where the loss is smooth.

Reference: You et al., SC 2019, Section 3.2, which calls the step the Lipschitz constant.
"""

from math import inf, isnan, nan

import numpy as np
import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor.base import Values, shares_of
from gossip.task import Task

FLAT = 1e-12
"""Least curvature that a step can be told from."""


def lipschitz(task: Task, w_a: Tensor, samples: int, comm: Communicator) -> Values:
    """L(x, g) at the mean model, and the step 1 / L.

    Costs a gradient and a Hessian-vector product of the probe, split between the learners; one
    collective of d numbers and one of a number. With BatchNorm it depends on the number of
    learners, because every share has statistics of its own.

    Args:
        task: model and loss; its training set gives the probe.
        w_a: mean model x, [d].
        samples: size of the probe; at most the whole training set.
        comm: who shares the work.

    Returns:
        `lipschitz`, NaN where g = 0, and `lipschitz_step`, see `largest_step`.
    """
    probe = probe_of(len(task.train), samples)
    parts = shares_of(probe, comm, by_learner=task.looks_at_batch)
    row, weight = w_a.to(task.dtype), comm.processes / len(probe)
    local = torch.zeros_like(w_a, dtype=torch.float64)
    for part in parts:
        local += task.gradient_sum(row, task.train, part)[0]
    g = weight * comm.mean(local.unsqueeze(0))
    length = g.norm()
    if length == 0:
        return {"lipschitz": nan, "lipschitz_step": nan}
    # Of unit length: products of a small g would lose digits in float32.
    along = g / length
    product = torch.zeros_like(local).unsqueeze(0)
    for part in parts:
        product += task.hessian_vector_sums(row, along.unsqueeze(0), task.train, part)
    value = weight * float(comm.mean(product @ along))
    return {"lipschitz": value, "lipschitz_step": largest_step(value)}


def largest_step(value: float) -> float:
    """1 / L; infinite where the loss is flat or curves down, so that no step is too long."""
    if isnan(value):
        return nan
    return 1 / value if value >= FLAT else inf


def probe_of(total: int, samples: int) -> np.ndarray:
    """Sample numbers evenly spread over the training set, [min(total, samples)], ascending."""
    size = min(total, samples)
    return np.arange(size) * total // size
