"""The plan of the study names every run: trials on a seed that is not judged, then all seeds."""

import math
from collections.abc import Callable, Sequence

from experiments.methods.methods import METHODS, Method, Trial, compared
from experiments.methods.size import PARTITIONS, Size
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate

STUDY = "methods"
"""Name of the folder that the runs lie in."""

LossOf = Callable[[str], float | None]
"""Final validation loss of a run by its name, infinite if it is lost; None: not run."""


def key(cell: str, name: str, trial: int, seed: int) -> str:
    """The name of a run."""
    return f"{cell}-{name}-{trial}-seed{seed}"


def runs(size: Size, loss: LossOf) -> dict[str, Config]:
    """The runs that can be named by now: all of them once all trials are done.

    Cell by cell and seed by seed, so that all methods soon have equally many.
    """
    made: dict[str, Config] = {}
    for cell in PARTITIONS:
        for name, method in compared(size).items():
            for i, trial in enumerate(method.trials(size)):
                seed = size.tuning_seed
                made[key(cell, name, i, seed)] = config(cell, method, trial, seed, size)
    for seed in size.seeds:
        for cell in PARTITIONS:
            for name, method in compared(size).items():
                if (best := chosen(cell, name, size, loss)) is not None:
                    trial = method.trials(size)[best]
                    made[key(cell, name, best, seed)] = config(cell, method, trial, seed, size)
    return made


def count(size: Size) -> int:
    """Number of runs, which does not depend on the trials that are chosen."""
    return len(runs(size, lambda key: 0.0))


def chosen(cell: str, name: str, size: Size, loss: LossOf) -> int | None:
    """The trial with the lowest validation loss; None as long as one is missing."""
    count = len(METHODS[name].trials(size))
    return least([loss(key(cell, name, i, size.tuning_seed)) for i in range(count)])


def least(losses: Sequence[float | None]) -> int | None:
    """The first trial with the lowest loss, NaN the highest; None as long as one is missing."""
    known = [math.inf if math.isnan(each) else each for each in losses if each is not None]
    return known.index(min(known)) if len(known) == len(losses) else None


def config(cell: str, method: Method, trial: Trial, seed: int, size: Size) -> Config:
    """The config of a run."""
    return Config(
        algorithm=(method.algorithm,),
        steps=size.steps,
        seed=seed,
        gossip=Averaging(
            learners=size.learners,
            topology=method.topology,
            topology_options=method.topology_options,
            algorithm_options=trial.options,
            mix_every=size.every if method.mixes_in_rounds else 1,
            backend="stacked",
            wire=method.wire,
        ),
        data=Data(
            dataset=size.dataset,
            inputs="standardised",
            batch_size=size.batch,
            partition=PARTITIONS[cell],
            concentration=size.concentration,
            validation=size.validation,
        ),
        model=Model(model=size.model, widths=size.widths, model_options=size.model_options),
        rate=Rate(lr=trial.lr, momentum=method.momentum),
        monitoring=Monitoring(monitor="cheap", monitor_every=size.monitor_every),
    )
