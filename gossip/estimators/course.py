"""Where training stands, and the batches of the next epoch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gossip.damping import Damper, Damping, Noise, Seen, State
from gossip.data.sampling import Orders
from gossip.engines import Sums
from gossip.errors import UserError


class Update(NamedTuple):
    """One update: the samples to take, and what the damper says."""

    indices: np.ndarray
    damping: Damping


@dataclass
class Course:
    """What is left of all updates so far: numbers and a class, so that it can be pickled."""

    seed: int
    kind: type[Damper]
    """Of the damper whose state it is."""
    state: State
    updates: int = 0
    samples: int = 0
    """Drawn in those."""
    epoch: int = 0
    """Whole epochs behind."""
    ahead: int = 0
    """Samples of this epoch that have been drawn; after an epoch, those drawn beyond its end."""
    population: int = 0
    loss: float | None = None
    gradient_square: float | None = None
    noise: Noise | None = None

    @property
    def position(self) -> int:
        """Where the next batch begins in the stream of all epochs, counted in epochs of these data.

        The samples drawn so far, unless some of them were of a training set of another size.
        """
        return self.epoch * self.population + self.ahead

    def note(self, total: Sums) -> None:
        """Remember of an update what dampers look at."""
        self.loss = total.loss / total.samples
        square = sum(float(g.double().square().sum()) for g in total.gradient.values())
        self.gradient_square = square / total.samples**2
        self.noise = None
        if total.parts > 1:
            variance = (total.squares - total.samples * self.gradient_square) / (total.parts - 1)
            self.noise = Noise(variance, self.gradient_square - variance / total.samples)


Measure = Callable[[frozenset[str], int], dict[str, Any]]
"""Fields of `Seen` that have to be measured before update k, and k -> their values."""


def epoch(course: Course, damper: Damper, population: int, measure: Measure) -> Iterator[Update]:
    """The updates of the next epoch; each counts when the next is asked for.

    All epochs together are one stream, an order of the samples after another, cut into batches: a
    batch that crosses the end of an epoch begins the next, which then has fewer left. So every
    epoch sees each sample once, and B is exact.

    Raises:
        UserError: the damper asks for more than the training set.
    """
    if course.population != population:
        course.ahead = 0  # other data: what was drawn of the old ones is no part of these
    course.population = population
    orders = Orders([np.arange(population)], [()], course.seed)
    while course.ahead < population:
        looked_at = damper.looks_at(course.updates)
        seen = Seen(
            course.updates,
            course.position,
            population,
            loss=course.loss,
            gradient_square=course.gradient_square,
            noise=course.noise,
            **measure(looked_at, course.updates),
        )
        damping, state = damper.update(seen, course.state)
        if damping.batch > population:
            raise UserError(
                f"update {course.updates} is to take {damping.batch} samples at once and there are "
                f"{population}: set max_batch_size to at most that, or leave it at None"
            )
        first = course.position
        yield Update(orders.take(np.arange(first, first + damping.batch)[None])[0], damping)
        course.state = state
        course.updates += 1
        course.samples += damping.batch
        course.ahead += damping.batch
    course.ahead -= population
    course.epoch += 1
