"""The training loop of an algorithm: one for those with a common step, one for those without."""

from collections.abc import Callable
from functools import partial

import torch

from gossip import asynchronous
from gossip.algorithms import ASYNCHRONOUS
from gossip.loop.flat import flat_spread
from gossip.loop.outcome import Outcome
from gossip.monitor import names_of
from gossip.study import Study, algorithm
from gossip.train import train


def loop(study: Study, name: str) -> Callable[..., Outcome]:
    """The loop that trains with the algorithm `name`; its further arguments are `train`'s.

    Raises:
        UserError: options of the optimizer or the learning rate do not fit.
    """
    function = asynchronous.train if name in ASYNCHRONOUS else train
    return partial(function, study, algorithm(name, study))


def check_parts(study: Study, name: str) -> None:
    """Refuse what cannot be trained with, before anything is written.

    Raises:
        UserError: options of the optimizer or the learning rate do not fit.
    """
    algorithm(name, study)
    if name in ASYNCHRONOUS:
        asynchronous.check_study(study)


def columns(study: Study, name: str) -> tuple[str, ...]:
    """Columns that its loop adds to the trace, and those of what the algorithm keeps."""
    if name in ASYNCHRONOUS:
        return asynchronous.COLUMNS
    made = algorithm(name, study)
    return names_of(
        made.init(torch.zeros(study.task.d), 1).rows,
        with_gradient=study.config.monitoring.monitor != "cheap",
        with_flat=flat_spread(study, made) is not None,
    )
