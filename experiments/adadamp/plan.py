"""The plan of the study names every run: trials on a seed that is not judged, then all seeds."""

from collections.abc import Callable

from experiments.adadamp.methods import BASELINE, SCHEDULES, Method, compared, largest, method
from experiments.adadamp.size import Size
from gossip.config import Averaging, BatchGrowth, Config, Data, Model, Monitoring, Rate

ErrorOf = Callable[[str], float | None]
"""Final validation error of a run by its name, infinite if it is lost; None: not run."""


def runs(part: str, size: Size, error: ErrorOf) -> dict[str, Config]:
    """The runs of a part that can be named by now: all of them once all trials are done."""
    made: dict[str, Config] = {}
    if part == "schedules":
        _trials(made, BASELINE, size)
        _judged(made, dict.fromkeys(SCHEDULES, chosen(BASELINE, size, error)), size)
    if part == "dampers":
        for name in compared(size):
            _trials(made, name, size)
        _judged(made, {name: chosen(name, size, error) for name in compared(size)}, size)
    return made


def count(part: str, size: Size) -> int:
    """Number of runs of a part, which does not depend on the rates that are chosen."""
    return len(runs(part, size, lambda key: 0.0))


def trials(name: str, size: Size) -> list[str]:
    """Names of a method's trials, by rate."""
    return [key(name, lr, size.tuning_seed) for lr in grid(name, size)]


def grid(name: str, size: Size) -> tuple[float, ...]:
    """Rates that a method is tried with."""
    return tuple(method(name).grid * lr for lr in size.rates)


def chosen(name: str, size: Size, error: ErrorOf) -> float | None:
    """The rate of the trial with the lowest validation error; None as long as one is missing."""
    found = [e for e in map(error, trials(name, size)) if e is not None]
    return grid(name, size)[found.index(min(found))] if len(found) == len(size.rates) else None


def key(name: str, lr: float, seed: int) -> str:
    """The name of a run."""
    return f"{name}-lr{lr:g}-seed{seed}"


def _trials(made: dict[str, Config], name: str, size: Size) -> None:
    for lr in grid(name, size):
        made[key(name, lr, size.tuning_seed)] = config(name, size, lr, size.tuning_seed)


def _judged(made: dict[str, Config], rates: dict[str, float | None], size: Size) -> None:
    """Seed by seed, so that one is soon whole."""
    for seed in size.seeds:
        for name, lr in rates.items():
            if lr is not None:
                made[key(name, lr, seed)] = config(name, size, lr, seed)


def config(name: str, size: Size, lr: float, seed: int) -> Config:
    """The config of a run; `lr` is that of B_0."""
    how = method(name)
    n = size.learners if how.shares else 1
    return Config(
        algorithm=(how.algorithm,),
        epochs=size.epochs,
        seed=seed,
        gossip=Averaging(learners=n, topology="one-peer-exponential", backend="stacked"),
        data=Data(
            dataset=size.dataset,
            inputs="standardised",
            batch_size=how.first * size.batch // n,
            validation=size.validation,
        ),
        model=Model(model=size.model, widths=size.widths),
        rate=Rate(lr=how.first * lr, optimizer="nesterov", weight_decay=5e-4, **how.rate),
        damping=BatchGrowth(
            damping=how.damping,
            damping_options=how.options(size),
            max_batch=None if how.cap is None else largest(size, n, how.cap),
        ),
        monitoring=Monitoring(monitor="cheap", monitor_every=_every(how, size)),
    )


def _every(how: Method, size: Size) -> int:
    """Updates between two evaluations."""
    if how.damping == "gradient-descent":
        return 1
    if how.cap is not None:
        return size.growing_every
    return max(1, round(size.epochs * size.samples / size.batch / size.evaluations))
