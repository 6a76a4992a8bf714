"""Notes before a run: options that were given and have no effect, averages that never come."""

import inspect
from collections.abc import Iterator
from contextlib import suppress

from gossip.algorithms.pattern import Every, LocalGradient
from gossip.config import Averaging, Config, Model
from gossip.errors import UserError
from gossip.models import MODELS
from gossip.study import parts

READERS = {"order": ("dpsgd",), "noise_std": ("ssgd-star",), "noise_mode": ("ssgd-star",)}
"""Options of `Averaging` -> the algorithms that read them."""
FLAGS = ("widths", "activation")
"""Options of `Model` that only some of the models take."""


def idle(config: Config, processes: int) -> Iterator[str]:
    """Options that were given and have no effect.

    Args:
        config: of the run.
        processes: that were started.
    """
    for option, readers in READERS.items():
        given = getattr(config.gossip, option) != getattr(Averaging(), option)
        if given and not set(readers) & set(config.algorithm):
            chosen = " ".join(config.algorithm)
            yield f"{option.replace('_', '-')} has no effect with --algorithm {chosen}"
    name = config.model.model
    takes = inspect.signature(MODELS[name]).parameters if name in MODELS else ()
    for option in FLAGS:
        if getattr(config.model, option) != getattr(Model(), option) and option not in takes:
            yield f"{option} has no effect with --model {name}"
    if config.epochs is not None and config.steps != Config().steps:
        yield "steps has no effect with --epochs"
    if config.gossip.backend not in ("auto", "stacked") and processes == 1:
        yield (
            "backend has no effect with one process, which hosts all learners; gossip.launch, "
            "mpirun and torchrun start more"
        )


def endless(config: Config, steps: int) -> Iterator[str]:
    """Algorithms whose first average would come behind the last step, after rounds too long."""
    for name in config.algorithm:
        with suppress(UserError):  # what does not fit is refused where the algorithm is made
            sent = [p for p in parts.pattern(name, config) if not isinstance(p, LocalGradient)]
            first = [p.after + p.steps if isinstance(p, Every) else 1 for p in sent]
            if min(first, default=1) > steps:
                yield (
                    f"algorithm {name} averages after {min(first)} steps and the run has {steps}: "
                    "the learners never average, but to be judged; give a smaller every="
                )
