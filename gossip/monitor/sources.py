r"""Ways to know g, the gradient of the training loss at the mean model.

alpha_e divides by ||g||^2. A sample of m out of N gives g plus noise, and the square of the noise
adds to ||g||^2, so a plain estimate of alpha_e is too low by the factor

.. math:: 1 \Big/ \Big(1 + \frac{\mathrm{tr}\,\Sigma\,(1 - m/N)}{m \|g\|^2}\Big)

with Sigma the covariance of a sample's gradient. As training goes on ||g|| falls and Sigma does
not: a small probe shows a late drop of alpha_e that is not there. So the whole training set is
the default, and estimates are corrected. Measured at one step (MNIST, 784-50-50-10, 16 learners
on a ring, alpha = 1, step 500, true alpha_e = 0.91), as multiples of the truth, mean and standard
deviation over 12 probes:

| m | uncorrected | probe | split-half |
|---|---|---|---|
| 2,000 | 0.25 | 1.19 +- 0.72 | 1.25 +- 0.80 |
| 5,000 | 0.45 | 0.98 +- 0.15 | 1.27 +- 0.53 |
| 10,000 | 0.67 | 1.01 +- 0.11 | 1.20 +- 0.25 |
| 30,000 | 0.93 | 1.03 +- 0.09 | 1.16 +- 0.11 |

At step 10, all are within 1.5 % of it on average. Never use the batches of the update itself: their
noise is in g_a too (0.87 for a true 0.95).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor.base import share_of, shares_of
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.monitor.spread import squared_norms
from gossip.streams import PROBE, generator
from gossip.task import Task

GROUPS = 8
"""The least number of groups whose scatter tells a probe's noise."""
GRADIENT, HESSIAN, ROUND, DAMPER = range(4)
"""What probes are for: g, products of the Hessian, g where a round began, what a damper sees."""


@dataclass(frozen=True)
class Probe:
    """Training samples drawn without replacement, anew for each step, the same in every process."""

    size: int
    """m; at most all of them are drawn."""
    seed: int
    step: int
    purpose: int = GRADIENT
    """Two probes of one step with different purposes are independent."""

    def indices(self, samples: int) -> np.ndarray:
        """Sample numbers in random order, [min(size, samples)]."""
        rng = generator(self.seed, PROBE, self.step, self.purpose)
        return rng.permutation(samples)[: self.size]


GradientSource = Callable[[Task, Tensor, Probe, Communicator], MeanModelGradient]
"""(task, w_a [d], probe, comm) -> g; collective."""


def full(task: Task, w_a: Tensor, probe: Probe, comm: Communicator) -> MeanModelGradient:
    r"""The gradient over the whole training set, exact; the probe is not used.

    .. math:: g = \frac1N \sum_j N_j\, \nabla L^{(j)}(w_a)

    Each learner walks through its contiguous share of N_j samples; one collective of d + 2.
    """
    return of_samples(task, w_a, np.arange(len(task.train)), comm)


def of_samples(
    task: Task, w_a: Tensor, indices: np.ndarray, comm: Communicator
) -> MeanModelGradient:
    """The gradient over the training samples `indices`, taken for the whole set. Collective."""
    vector, loss = _means(comm.mean(_shared_sums(task, w_a, indices, comm).unsqueeze(0)))
    return MeanModelGradient(vector, float(vector @ vector), 0.0, loss, len(indices))


def sampled(task: Task, w_a: Tensor, probe: Probe, comm: Communicator) -> MeanModelGradient:
    r"""The gradient over a probe, with its noise in ||g||^2 measured between groups and taken out.

    .. math::
        \|g\|^2 \approx \|\hat g\|^2 - \Big(1 - \frac mN\Big) \frac{\hat\Sigma}{m}, \qquad
        \hat\Sigma = \frac{1}{S - 1} \sum_{i=1}^{S} b_i \|\hat g_i - \hat g\|^2

    for S groups of b_i samples; at least one group per learner and 8 in all. This is the unbiased
    norm estimator of AdaScale (Johnson et al., 2020) with unequal groups and the correction for
    drawing without replacement. The square is unbiased; alpha_e, a ratio, is nearly so, and
    explodes where the square comes close to 0. One collective of d + 2, one of 2 per learner.
    """
    indices = probe.indices(len(task.train))
    groups_per_learner = -(-GROUPS // comm.n)
    groups = [
        torch.stack([_sums(task, w_a, group) for group in np.array_split(part, groups_per_learner)])
        for part in (share_of(indices, range(j, j + 1), comm.n) for j in comm.hosted)
    ]
    vector, loss = _means(comm.mean(torch.stack(groups).sum(dim=(0, 1)).unsqueeze(0)))
    scatter = comm.gather(torch.stack([_scatter(sums, vector) for sums in groups]))
    sum_of_squares, num_groups = scatter.sum(dim=0).tolist()
    m, total = len(indices), len(task.train)
    excess = (1 - m / total) * sum_of_squares / max(num_groups - 1, 1) / m
    return MeanModelGradient(vector, float(vector @ vector) - excess, excess, loss, m)


def split_half(task: Task, w_a: Tensor, probe: Probe, comm: Communicator) -> MeanModelGradient:
    r"""The gradient over a probe in two disjoint halves, whose noises do not multiply up.

    .. math:: g \approx \tfrac12 (h_1 + h_2), \qquad \|g\|^2 \approx h_1 \cdot h_2

    Needs no groups and no covariance, but two halves measure the noise less well than the groups
    of `sampled`, and drawing without replacement makes the square too small by tr(Sigma) / N. It
    explodes for small m, with NaN where h_1 . h_2 <= 0. One collective of 2 d + 4.
    """
    half = min(probe.size, len(task.train)) // 2
    indices = probe.indices(len(task.train))
    halves = (indices[:half], indices[half : 2 * half])
    sums = torch.cat([_shared_sums(task, w_a, half, comm) for half in halves])
    (h1, loss1), (h2, loss2) = map(_means, comm.mean(sums.unsqueeze(0)).chunk(2))
    noise = (h1 - h2) / 2
    return MeanModelGradient(
        (h1 + h2) / 2, float(h1 @ h2), float(noise @ noise), (loss1 + loss2) / 2, 2 * half
    )


SOURCES: dict[str, GradientSource] = {"full": full, "probe": sampled, "split-half": split_half}
"""What `--monitor-source` offers."""


def _shared_sums(task: Task, w_a: Tensor, indices: np.ndarray, comm: Communicator) -> Tensor:
    """`_sums` over the hosted learners' parts of `indices`."""
    parts = shares_of(indices, comm, by_learner=task.looks_at_batch)
    return sum((_sums(task, w_a, part) for part in parts), w_a.new_zeros(len(w_a) + 2))


def _sums(task: Task, w_a: Tensor, indices: np.ndarray) -> Tensor:
    """Sums over samples: of the gradient, of the loss, of one; [d + 2] float64."""
    row = w_a.to(task.dtype)
    # In order, because a memory map is read in order; the order of a sum is no matter.
    gradient, loss = task.gradient_sum(row, task.train, np.sort(indices))
    return torch.cat([gradient, w_a.new_tensor([loss, len(indices)])])


def _means(sums: Tensor) -> tuple[Tensor, float]:
    """Mean gradient [d] and mean loss from averages of `_sums`; the counts weigh the shares."""
    return sums[:-2] / sums[-1], float(sums[-2] / sums[-1])


def _scatter(sums: Tensor, mean: Tensor) -> Tensor:
    """b_i ||g_i - mean||^2 over one learner's groups, and how many of them have samples; [2]."""
    sums = sums[sums[:, -1] > 0]
    if not len(sums):
        return mean.new_zeros(2)
    counts = sums[:, -1]
    squares = squared_norms(sums[:, :-2] / counts.unsqueeze(1), mean)
    return torch.stack([counts @ squares, mean.new_tensor(float(len(sums)))])
