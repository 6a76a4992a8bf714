r"""Noise of the strength of DPSGD's own, with one property of it changed at a time.

With W = 11^T/n and plain SGD, DPSGD's learners lie about their mean by what their last gradients
differ, so that

.. math::
    D_j(t) = -\alpha(t-1) \, (g_j - g_a)(t-1), \qquad \sum_j D_j = 0

is all that makes it another method than SSGD. Each kind of noise here is a function of D, sums to
zero over the learners as D does, and has its strength, sum_j ||D_j||^2, at every step: exactly, or
on average where it is drawn. D is that of the run itself: where other noise leads elsewhere, D and
so the strength are other than DPSGD's there, unless `recorded_spread` sets it.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip import trace
from gossip.algorithms import pattern as phases
from gossip.comm.base import Communicator
from gossip.errors import UserError
from gossip.streams import INJECTED, NOISE, generator
from gossip.task.layers import Layer, layer_squares


class Deviations(NamedTuple):
    """What noise is made from."""

    past: Tensor
    """D of the last steps, the newest first, [local, steps, d]; zero before the first step."""
    step: int
    """t: so many of them there have been."""
    seed: int
    layers: Sequence[Layer]
    """Of the model; none: all columns are one."""
    comm: Communicator

    @property
    def own(self) -> Tensor:
        """D(t), [local, d]."""
        return self.past[:, 0].contiguous()

    @property
    def known(self) -> int:
        """How many of the kept steps have been."""
        return min(self.step, self.past.shape[1])


class NoiseKind(NamedTuple):
    """A kind of noise."""

    make: Callable[[Deviations], Tensor]
    """delta [local, d]."""
    pattern: phases.Pattern = ()
    """What making it sends."""
    remembers: bool = False
    """Whether it looks at steps before the last."""


def own(deviations: Deviations) -> Tensor:
    """D itself: DPSGD with W = 11^T/n."""
    return deviations.own


def flipped(deviations: Deviations) -> Tensor:
    """-D: its distribution where that is symmetric, and learners move on, not back."""
    return -deviations.own


def signed(deviations: Deviations) -> Tensor:
    """D with one sign for all learners, drawn anew at (seed, INJECTED, t)."""
    draws = generator(deviations.seed, INJECTED, deviations.step)
    return deviations.own if draws.integers(2) else -deviations.own


def gaussian(deviations: Deviations) -> Tensor:
    r"""Gaussian of the learners' covariance at this step.

    .. math::
        \delta_j = \frac{1}{\sqrt{n-1}} \sum_k (z_{jk} - \bar z_k) D_k, \qquad z_{jk} \sim N(0, 1)

    Given D each has the covariance (1/n) sum_k D_k D_k^T. z [n, n] is drawn at (seed, INJECTED, t);
    all learners' D go to all.
    """
    n = deviations.comm.n
    if n == 1:
        return deviations.own
    z = generator(deviations.seed, INJECTED, deviations.step).standard_normal((n, n))
    return deviations.comm.start_mix(
        deviations.own, csr_array((z - z.mean(axis=0)) / sqrt(n - 1))
    )()


def isotropic(deviations: Deviations) -> Tensor:
    r"""Gaussian, all coordinates alike, each learner with its own strength.

    .. math::
        \delta_j = \sqrt{\tfrac{n}{n-1}} (\xi_j - \bar\xi), \qquad
        \xi_j \sim N\big(0, \tfrac1d \|D_j\|^2 I\big)

    xi_j is drawn at (seed, NOISE, j, t).
    """
    return _isotropic(deviations, ())


def by_layer(deviations: Deviations) -> Tensor:
    """As `isotropic` in the columns of each layer, whose share of the strength stays its own."""
    return _isotropic(deviations, deviations.layers)


def delayed(deviations: Deviations) -> Tensor:
    """D of so many steps ago as are kept, at the strength of now: its own law, out of step."""
    return _earlier(deviations, deviations.known - 1)


def shuffled(deviations: Deviations) -> Tensor:
    """D of one of the steps that are kept, drawn at (seed, INJECTED, t), at the strength of now."""
    draws = generator(deviations.seed, INJECTED, deviations.step)
    return _earlier(deviations, int(draws.integers(max(1, deviations.known))))


def recorded_spread(run: str) -> Callable[[int], float]:
    """sigma_w^2 of a recorded run by step, 0 before its first.

    Between recorded steps it is interpolated, after the last one where it is finite it stays.

    Args:
        run: its folder.

    Raises:
        UserError: it has no trace, or its learners are never apart.
    """
    table = trace.load(run)
    steps, spread = (
        table[name].to_numpy(zero_copy_only=False).astype(float) for name in ("step", "sigma_w2")
    )
    known = np.isfinite(spread)
    if not spread[known].any():
        raise UserError(
            f"strength_from={run}: sigma_w2 of this run is 0 at all steps; give a run whose "
            "learners are apart, such as one of dpsgd"
        )
    return lambda step: float(np.interp(step, steps[known], spread[known], left=0.0))


def with_square(noise: Tensor, square: float, comm: Communicator) -> Tensor:
    """`noise` [local, d], scaled so that its sum of squares over all learners is `square`."""
    has = comm.n * float(comm.mean(_squares(noise).unsqueeze(1)))
    return noise * sqrt(square / has) if has > 0 else torch.zeros_like(noise)


def at_strength(noise: Tensor, wanted: Tensor, comm: Communicator) -> Tensor:
    """`noise`, scaled to the sum of squares over all learners of `wanted`; both [local, d]."""
    has, wants = comm.mean(torch.stack([_squares(noise), _squares(wanted)], dim=1)).tolist()
    return noise * sqrt(wants / has) if has > 0 else torch.zeros_like(noise)


def _squares(rows: Tensor) -> Tensor:
    """||row||^2, [local] float64."""
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square()


def _earlier(deviations: Deviations, ago: int) -> Tensor:
    return at_strength(deviations.past[:, max(0, ago)], deviations.own, deviations.comm)


def _isotropic(deviations: Deviations, layers: Sequence[Layer]) -> Tensor:
    comm, deviation = deviations.comm, deviations.own
    if comm.n == 1:
        return deviation
    d = deviation.shape[1]
    parts = tuple(layers) or (Layer("", 0, d, torch.Size([d])),)
    sizes = torch.tensor([part.stop - part.start for part in parts], device=deviation.device)
    std = (layer_squares(deviation, parts) / sizes).sqrt().to(deviation)
    drawn = [
        torch.from_numpy(generator(deviations.seed, NOISE, j, deviations.step).standard_normal(d))
        for j in comm.hosted
    ]
    xi = torch.stack(drawn).to(deviation) * std.repeat_interleave(sizes, dim=1)
    return (xi - comm.mean(xi)) * sqrt(comm.n / (comm.n - 1))


NOISES = {
    "own": NoiseKind(own),
    "flipped": NoiseKind(flipped),
    "signed": NoiseKind(signed),
    "gaussian": NoiseKind(gaussian, (phases.AllGather(),)),
    "by-layer": NoiseKind(by_layer, (phases.Mean(),)),
    "isotropic": NoiseKind(isotropic, (phases.Mean(),)),
    "delayed": NoiseKind(delayed, (phases.Mean(0, numbers=2),), remembers=True),
    "shuffled": NoiseKind(shuffled, (phases.Mean(0, numbers=2),), remembers=True),
}
"""What option `noise` of `ssgd-injected` offers, beside the twin."""
