"""The plan of the DATE study names every run; rates are chosen by trials in place of guesses.

A plan is a function of what is finished: a cell's trials come first, on a seed that is not judged,
over a grid that grows while its best rate is at an end; then the judged seeds at that rate. All
runs of one task see equally many samples.
"""

from collections.abc import Callable
from dataclasses import dataclass

from experiments.common.tuning import ErrorAt, Grid
from experiments.date.methods import METHODS, SOLVERS, TOGGLES, Method, recipe
from experiments.date.size import Study, Task
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate

STUDY = "date"
"""Name of the folder that the runs lie in."""
STEP = 1.006
"""Factor between neighbouring rates of the needle: that of 10 and 9.94."""
NEEDLE = (-1, 0, 1)
"""Steps by which they are off the best."""

ErrorOf = Callable[[str], float | None]
"""Final validation error (loss: BY_LOSS) of a run by its name, infinite without a finite loss;
None: not run."""


@dataclass(frozen=True)
class Cell:
    """A method at a batch: at the baseline's, or at the largest."""

    task: str
    method: str
    is_large: bool = True
    shift: int = 0
    """Steps of 0.6 % by which its judged runs are off the best rate."""

    @property
    def made(self) -> Method:
        """Its method."""
        return METHODS[self.task][self.method]

    @property
    def tuned_at(self) -> "Cell":
        """The cell whose trials choose its rate."""
        if self.made.like:
            return Cell(self.task, self.made.like, is_large=False)
        return Cell(self.task, self.method, is_large=self.is_large and bool(self.made.largest))

    def batch(self, size: Study) -> int:
        """B."""
        task = size.task(self.task)
        return task.largest if self.is_large else task.baseline

    def seeds(self, size: Study) -> tuple[int, ...]:
        """Of its judged runs."""
        return size.needle_seeds if self.method == "lars" else size.seeds


def _against_adam(task: str) -> tuple[Cell, ...]:
    """DATE and Adam on a task, at both batches."""
    return tuple(
        Cell(task, method, is_large=is_large)
        for is_large in (True, False)
        for method in ("date", "adam")
    )


LIPSCHITZ = "lipschitz"
PARTS: dict[str, tuple[Cell, ...]] = {
    LIPSCHITZ: (),
    "lenet": (
        Cell("lenet", "rmsprop-date"),
        Cell("lenet", "rmsprop-manual", is_large=False),
        Cell("lenet", "rmsprop-manual"),
    ),
    "needle": tuple(Cell("lenet", "lars", shift=k) for k in NEEDLE),
    "momentum": (
        Cell("lenet", "momentum-date"),
        Cell("lenet", "momentum-manual", is_large=False),
        Cell("lenet", "momentum-manual"),
    ),
    "lstm": _against_adam("lstm"),
    "backwards": _against_adam("backwards"),
    "words": _against_adam("words"),
    "toggles": tuple(Cell("lenet", f"rmsprop-{toggle}") for toggle in TOGGLES),
    "solvers": tuple(
        Cell("lstm", name) for name in METHODS["lstm"] if name not in ("date", "adam")
    ),
}  # fmt: skip
"""Cells of each part, the most decisive part first: the order in which they are made. The part
lipschitz has runs of its own, `experiments.date.lipschitz`."""


def name(task: str, method: str, batch: int, lr: float, seed: int) -> str:
    """The name of a run: everything in which it differs from the others."""
    return f"{task}-{method}-b{batch}-lr{lr:.5g}-seed{seed}"


def key(cell: Cell, lr: float, seed: int, size: Study) -> str:
    """The name of a run of a cell."""
    return name(cell.task, cell.method, cell.batch(size), lr, seed)


def grid(cell: Cell, size: Study) -> Grid:
    """The base rates that a cell is tried with, where it is tuned."""
    at = cell.tuned_at
    return Grid(at.made.largest if at.is_large else at.made.rates, size.further)


def error_at(cell: Cell, size: Study, error: ErrorOf) -> ErrorAt:
    """Of the trials that choose a cell's rate."""
    return lambda lr: error(key(cell.tuned_at, lr, size.tuning_seed, size))


def chosen(cell: Cell, size: Study, error: ErrorOf) -> float | None:
    """A cell's base rate; None as long as one of its trials is missing."""
    best = grid(cell, size).chosen(error_at(cell, size, error))
    return None if best is None else best * STEP**cell.shift


def runs(cell: Cell, size: Study, error: ErrorOf) -> dict[str, Config]:
    """The runs of a cell that can be named by now: all of them once its trials are done."""
    trials = grid(cell, size).tried(error_at(cell, size, error))
    wanted = [(cell.tuned_at, lr, size.tuning_seed) for lr in trials]
    if (best := chosen(cell, size, error)) is not None:
        wanted += [(cell, best, seed) for seed in cell.seeds(size)]
    return {key(at, lr, seed, size): config(at, lr, seed, size) for at, lr, seed in wanted}


def config(cell: Cell, lr: float, seed: int, size: Study) -> Config:
    """The config of a run of a cell."""
    task, rate = size.task(cell.task), recipe(cell.made.schedule)
    if "warmup" in rate and "warmup_share" not in rate:
        rate["warmup_epochs"] = task.warmup
    steps = task.epochs * task.samples / cell.batch(size)
    return base(
        task,
        cell.batch(size),
        Rate(lr=lr, baseline_batch=task.baseline, **SOLVERS[cell.made.solver], **rate),
        seed=seed,
        epochs=task.epochs,
        validation=size.validation,
        monitoring=Monitoring(
            monitor="cheap", monitor_every=max(1, round(steps / task.evaluations))
        ),
    )


def base(
    task: Task,
    batch: int,
    rate: Rate,
    *,
    seed: int,
    epochs: float,
    validation: int,
    monitoring: Monitoring,
) -> Config:
    """One learner with the whole batch: the arithmetic of SSGD for any n, for the least time."""
    return Config(
        algorithm=("ssgd",),
        epochs=epochs,
        seed=seed,
        gossip=Averaging(learners=1, topology="complete", backend="stacked"),
        data=Data(dataset=task.dataset, batch_size=batch, validation=validation),
        model=Model(model=task.model, model_options=task.options),
        rate=rate,
        monitoring=monitoring,
    )
