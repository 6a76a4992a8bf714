"""Processes that compute a step of SSGD together, as few as have enough samples each."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossip.algorithms import Gradient
from gossip.data import Sampler
from gossip.study import Study
from gossip.task import Gradients

COLUMN = "workers"
"""Column of the trace: number of processes that computed the step."""


@dataclass(frozen=True)
class Workers:
    r"""The first P of the processes share the samples of a step; the others have none.

    .. math::
        P = \min(\lceil n B / s \rceil, \mathrm{processes}), \qquad
        g_a = \frac{1}{n B} \sum_p c_p\, g_p

    for s samples per worker, process p having c_p of the n B samples, as equally many as can be:
    gradients are sums over counts, so the update is the same for every P. A process without samples
    waits for the sum, in the kernel where processes share memory, and makes the same update as the
    others: it has the model and the optimizer's state whenever the batch has grown.

    Reference: Sievert and Shah, "Training machine learning models faster with Dask", SciPy 2021,
    where P = max(1, floor(B / s)).
    """

    samples: int
    """s."""
    process: int
    processes: int

    def count(self, sampler: Sampler) -> int:
        """P, for the batch that it draws now."""
        return min(-(-sampler.n * sampler.batch_size // self.samples), self.processes)

    def indices(self, sampler: Sampler, t: int) -> np.ndarray:
        """Samples of this process at step t, [1, c]; c may be 0."""
        total, p, count = sampler.n * sampler.batch_size, self.process, self.count(sampler)
        share = range(p * total // count, (p + 1) * total // count) if p < count else range(0)
        return sampler.stretch(t, share)

    def weighted(self, gradient: Gradient, labels: Tensor, sampler: Sampler) -> Gradient:
        """`gradient` of samples with `labels` [1, c], so that its mean over processes is g_a."""
        weight = labels.shape[1] * self.processes / (sampler.n * sampler.batch_size)

        def take(x: Tensor) -> Gradients:
            if not weight:
                return Gradients(torch.zeros_like(x), x.new_zeros(len(x)))
            own = gradient(x)
            return own._replace(values=own.values * weight, losses=own.losses * weight)

        return take


def workers(study: Study) -> Workers | None:
    """As the config says; None: every learner computes."""
    samples, comm = study.config.damping.samples_per_worker, study.comm
    return Workers(samples, comm.process, comm.processes) if samples else None
