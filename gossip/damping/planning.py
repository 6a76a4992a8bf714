"""The schedule of a damper that follows a plan, before anything runs."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from gossip.damping.base import Damper, Damping, Seen
from gossip.errors import UserError


class Planned(NamedTuple):
    """One update of a schedule."""

    update: int
    """k."""
    epoch: float
    """Samples before it, divided by N."""
    damping: Damping
    samples: int
    """Samples before it."""


def planned(
    damper: Damper,
    epochs: float,
    population: int,
    *,
    learners: int = 1,
    whole_epochs: bool = False,
) -> Iterator[Planned]:
    """The updates in which n learners draw `epochs` times N samples.

    Where an epoch ends in the middle of a batch there are two rules. In one stream, as our loop
    draws them, the batch takes what it lacks from the next epoch, and only the end of the run is
    rounded up. With `whole_epochs` each epoch is rounded up: its last batch is full and what it
    takes too many is not counted, so that an epoch is ceil(N / B) updates. The update counts of
    the AdaDamp paper (78,200 of batch 128 in 200 epochs of 50,000) are by the latter.

    Raises:
        UserError: the damper's schedule depends on what it sees, or it is infinite.
    """
    end = _end(damper, epochs, population, learners)
    state, update, samples = damper.init(), 0, 0
    while samples < end:
        damping, state = damper.update(Seen(update, samples, population, learners), state)
        yield Planned(update, samples / population, damping, samples)
        drawn = learners * damping.batch
        next_epoch = (samples // population + 1) * population
        samples = min(samples + drawn, next_epoch) if whole_epochs else samples + drawn
        update += 1


def count(damper: Damper, epochs: float, population: int, *, learners: int = 1) -> int:
    """How many updates `planned` has, in one stream.

    Raises:
        UserError: as `planned`.
    """
    end, cap = _end(damper, epochs, population, learners), _cap(damper, population, learners)
    if cap <= damper.least:  # B_k is never below it
        return math.ceil(end / (learners * int(cap)))
    return sum(1 for _ in planned(damper, epochs, population, learners=learners))


def _cap(damper: Damper, population: int, learners: int) -> float:
    return damper.cap(Seen(0, 0, population, learners))


def _end(damper: Damper, epochs: float, population: int, learners: int) -> float:
    """Samples of the schedule, if there is one."""
    if damper.observes:
        raise UserError(
            f"{type(damper).__name__} follows {' and '.join(sorted(damper.observes))}: its "
            "schedule is known only once it has run"
        )
    if not 0 < epochs < math.inf:
        raise UserError(f"epochs={epochs}: it must be a positive number")
    if _cap(damper, population, learners) < 1:
        raise UserError(
            f"{population} samples among {learners} learners are less than one for each: give "
            "fewer learners, or a max_batch"
        )
    return round(epochs * population, 6)
