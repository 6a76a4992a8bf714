"""The training loop of an algorithm: one for those with a common step, one for those without."""

from collections.abc import Callable
from typing import Any

from gossip import asynchronous
from gossip.algorithms import ASYNCHRONOUS
from gossip.loop.outcome import Outcome
from gossip.study import Study, algorithm
from gossip.train import train


def run_loop(
    study: Study, name: str, *, hurry: Callable[[], bool] = lambda: False, **options: Any
) -> Outcome:
    """Train with the algorithm `name`. Collective.

    Args:
        study: data, start, batches, topology and learning rate.
        name: one of `gossip.algorithms.NAMES`.
        hurry: whether this process has something to say soon, as by a signal; learners without a
            common step talk only in pauses.
        options: as of `gossip.train.train`.
    """
    if name in ASYNCHRONOUS:
        return asynchronous.train(study, algorithm(name, study), hurry=hurry, **options)
    return train(study, algorithm(name, study), **options)


def check(study: Study, name: str) -> None:
    """Refuse what cannot be trained with, before anything is written.

    Raises:
        UserError: options of the optimizer or the learning rate do not fit.
    """
    algorithm(name, study)
    if name in ASYNCHRONOUS:
        asynchronous.check(study)


def columns(name: str) -> tuple[str, ...]:
    """Columns that its loop adds to the trace."""
    return asynchronous.COLUMNS if name in ASYNCHRONOUS else ()
