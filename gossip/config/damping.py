"""Config section: batches that grow, and who computes them."""

import math
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from gossip.config.fields import at_least, names
from gossip.damping import DAMPERS
from gossip.errors import UserError, one_of


@dataclass(frozen=True, kw_only=True)
class BatchGrowth:
    """How the batch grows as training goes on; lengths are then counted in samples."""

    damping: Annotated[str, names(DAMPERS)] = "none"
    """What decides each learner's batch, beginning with --batch-size: geodamp, times a factor every
    few epochs; padadamp, plus a constant per update; adadamp, adadamp-nn, radadamp, as loss or
    gradient fall; noise-scale, as the gradient noise scale grows; geodamp-lr and cntsdamp-lr leave
    it and let the rate fall instead. Of --steps and --warmup-steps, one is then n B samples."""
    damping_options: tuple[str, ...] = ()
    """geodamp, geodamp-lr: delay=5 factor=2; padadamp: rate=1e-3; cntsdamp-lr: rate=0.02; adadamp:
    best_train_loss=0 share=1 min_batch=1; adadamp-nn: share= min_batch=; radadamp: rho=0.2
    reduction=min; noise-scale: scale=1 theta=0.95; all: dwell= wait=."""
    max_batch: Annotated[float | None, arg(metavar="INT|inf")] = None
    """Largest batch of a learner, from which on the learning rate falls instead (default: the
    largest in which no sample comes twice; inf: no limit)."""
    samples_per_worker: int = 0
    """ssgd: let only as many processes compute as have so many samples each, the others sleep until
    the gradient is there; 0: all compute."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(DAMPERS, self.damping, "damping")
        at_least(0, samples_per_worker=self.samples_per_worker)
        limit = self.max_batch
        if limit is not None and not (limit == math.inf or (limit >= 1 and limit % 1 == 0)):
            raise UserError(
                f"max_batch={limit:g}: it must be a whole number of samples from 1 up, or inf"
            )
