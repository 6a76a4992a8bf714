"""Dynamic loss scaling for float16: the scale, and the steps that all learners leave out."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gossip.algorithms import Gradient
from gossip.comm.base import Communicator
from gossip.task import Gradients

COLUMN = "loss_scale"
"""Column of the trace: the scale after the step."""
GROWTH, BACKOFF = 2.0, 0.5
GROWTH_INTERVAL = 2_000
"""Finite steps in a row after which the scale grows."""
LARGEST = 2.0**127
"""The largest power of two in float32."""


@dataclass
class LossScale:
    r"""One factor s for all learners, which keeps small gradients out of float16's underflow.

    .. math::
        s \leftarrow 2 s \text{ after 2000 finite steps in a row}, \qquad
        s \leftarrow s / 2 \text{ after a step that is not finite}

    A step is finite if every learner's gradient is; if one's is not, all leave it out, so that
    all have the same scale ever after. Their weights are mixed nonetheless. All numbers are those
    of torch.amp.GradScaler, and so is the scale of a learner alone.

    Reference: Micikevicius et al., "Mixed precision training", ICLR 2018, Section 3.2.
    """

    scale: float = 2.0**16
    """s."""
    finite: int = 0
    """Finite steps since the scale has changed."""

    def judged(self, gradient: Gradient, comm: Communicator) -> Gradient:
        """`gradient`, taken with the present scale, for a step that all make or leave out.

        A gradient that is left out is NaN on all learners, also where it was finite: so it goes
        through every algorithm and rate as one that is not finite does, and the optimizer, which
        passes such rows over, is the only one that has to know. One collective of one number.
        """

        def judge(x: Tensor) -> Gradients:
            gradients = gradient(x)
            values = gradients.values
            good = values.isfinite().all().to(values.dtype).reshape(1, 1)
            if self.update(finite=comm.mean(good).item() == 1):
                return gradients
            return gradients._replace(values=torch.full_like(values, math.nan))

        return judge

    def update(self, *, finite: bool) -> bool:
        """Take in whether a step was finite; gives that back."""
        self.finite = self.finite + 1 if finite else 0
        if not finite:
            self.scale *= BACKOFF
        elif self.finite == GROWTH_INTERVAL:
            self.scale, self.finite = min(self.scale * GROWTH, LARGEST), 0
        return finite
