"""The plan of the study names every run: trials on a seed that is not judged, then all seeds."""

from collections.abc import Callable, Set

from experiments.adadamp.methods import BASELINE, SCHEDULES, Method, compared, largest, method
from experiments.adadamp.size import Size
from experiments.common.tuning import ErrorAt, Grid
from gossip.config import Averaging, BatchGrowth, Config, Data, Model, Monitoring, Rate

ErrorOf = Callable[[str], float | None]
"""Final validation error of a run by its name, infinite if it is lost; None: not run."""


def arms(part: str, size: Size) -> dict[str, str]:
    """What is compared in a part: its name, and that of the method whose rate it has."""
    if part == "schedules":
        return dict.fromkeys(SCHEDULES, BASELINE)
    return {name: name for name in compared(size)} if part == "dampers" else {}


def runs(part: str, size: Size, error: ErrorOf) -> dict[str, Config]:
    """The runs of a part that can be named by now: all of them once all trials are done.

    Trials first, then seed by seed, so that one is soon whole.
    """
    of = arms(part, size)
    wanted = [
        (name, lr, size.tuning_seed)
        for name in dict.fromkeys(of.values())
        for lr in tried(name, size, error)
    ]
    rates = {tuned: chosen(tuned, size, error) for tuned in of.values()}
    wanted += [
        (name, lr, seed)
        for seed in size.seeds
        for name, tuned in of.items()
        if (lr := rates[tuned]) is not None
    ]
    return {key(name, lr, seed): config(name, size, lr, seed) for name, lr, seed in wanted}


def left(part: str, size: Size, error: ErrorOf, there: Set[str]) -> int:
    """How many runs of a part are to come, were no grid to grow any more."""
    to_name = sum(
        not grid(tuned, size).is_done(error_at(tuned, size, error))
        for tuned in arms(part, size).values()
    )
    return len(runs(part, size, error).keys() - there) + to_name * len(size.seeds)


def grid(name: str, size: Size) -> Grid:
    """Rates that a method is tried with at first."""
    return Grid(tuple(method(name).grid * lr for lr in size.rates), size.further)


def error_at(name: str, size: Size, error: ErrorOf) -> ErrorAt:
    """Of the trials that choose a method's rate."""
    return lambda lr: error(key(name, lr, size.tuning_seed))


def tried(name: str, size: Size, error: ErrorOf) -> tuple[float, ...]:
    """The rates of a method's trials, those to come as well."""
    return grid(name, size).tried(error_at(name, size, error))


def chosen(name: str, size: Size, error: ErrorOf) -> float | None:
    """The rate of the trial with the lowest validation error; None as long as one is missing."""
    return grid(name, size).chosen(error_at(name, size, error))


def key(name: str, lr: float, seed: int) -> str:
    """The name of a run."""
    return f"{name}-lr{lr:g}-seed{seed}"


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
