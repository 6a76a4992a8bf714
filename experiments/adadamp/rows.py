"""Each run of the study is one row of a committed table; the schedules' evaluations are another."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from experiments.adadamp.methods import SCHEDULES
from experiments.adadamp.plan import ErrorOf, runs
from experiments.adadamp.size import Size
from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from gossip.compare import metrics
from gossip.report import Run
from gossip.simulate.slots import ADADAMP, Slots

MODELS: dict[str, Slots] = {
    **{f"{name}, 4 slots": slots for name, slots in ADADAMP.items()},
    **{f"{name}, a slot each": slots.unlimited() for name, slots in ADADAMP.items()},
}
"""The paper's networks, with the slots that its simulation had, and with one for each worker."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of a set, of the final model."""

    key: str
    method: str
    lr: float
    """Of the first batch B_0."""
    seed: int
    epochs: float
    updates: int
    first_batch: int
    last_batch: int
    """Total, of all learners."""
    verdict: str
    lost: bool
    validation_error: float = math.nan
    test_error: float = math.nan
    test_loss: float = math.nan
    train_loss: float = math.nan
    seconds: float = math.nan
    """Wall time on one thread, evaluation included."""
    versions: str = ""

    @property
    def steps(self) -> int:
        """Updates, as of all rows that are kept."""
        return self.updates


@dataclass(frozen=True, kw_only=True)
class Point:
    """One evaluation of a run."""

    key: str
    update: int
    epoch: float
    test_error: float
    test_loss: float
    centralised_4: float
    """Simulated seconds until then: the paper's networks with 4 slots ..."""
    moderate_4: float
    high_4: float
    centralised_each: float
    """... and with a slot for each worker."""
    moderate_each: float
    high_each: float


SECONDS = dict(
    zip(
        MODELS,
        (f"{network}_{slots}" for slots in ("4", "each") for network in ADADAMP),
        strict=True,
    )
)
"""Columns of `Point` by the name of the model that they are of."""


def table(size: Size) -> str:
    """File name of the runs' table."""
    return f"{size.name}.csv"


def curves(size: Size) -> str:
    """File name of the table of the schedules' evaluations."""
    return f"{size.name}_curves.csv"


def load(scale: Scale, size: Size) -> list[tuple[Row, Run]]:
    """The runs of the plan that are finished and whose folders are there."""
    error = errors(scale, size)
    wanted = {key: None for part in size.parts for key in runs(part, size, error)}
    return [(row_of(run), run) for run in finished(scale.runs / size.name, wanted).values()]


def errors(scale: Scale, size: Size) -> ErrorOf:
    """The validation errors of the finished runs, read from their folders or the kept rows."""
    before, _ = read(scale.results, size)
    return errors_of([*before, *map(row_of, finished(scale.runs / size.name).values())])


def errors_of(rows: Sequence[Row]) -> ErrorOf:
    """The validation errors of the rows, by name."""
    return {row.key: math.inf if row.lost else row.validation_error for row in rows}.get


def row_of(run: Run) -> Row:
    """The numbers of one run."""
    method, _, rest = run.folder.name.rpartition("-lr")
    learners = run.setting("learners")
    first = learners * run.setting("batch_size")
    batches = _batches(run, first)
    return Row(
        key=run.folder.name,
        method=method,
        lr=float(rest.rpartition("-seed")[0]),
        seed=run.setting("seed"),
        epochs=run.setting("epochs"),
        updates=int(run.number("steps")),
        first_batch=first,
        last_batch=int(batches[-1]),
        verdict=run.verdict,
        lost=metrics.is_lost(run),
        validation_error=metrics.last_error(run, metrics.VALIDATION),
        test_error=metrics.last_error(run, metrics.TEST),
        test_loss=run.number("test_loss"),
        train_loss=run.number("train_loss"),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def _batches(run: Run, first: int) -> np.ndarray:
    """Total batch of every update, [updates]."""
    count = int(run.number("steps"))
    if "batch_size" not in run.trace.column_names:
        return np.full(count, first)
    batches = run.column("batch_size")
    return run.setting("learners") * batches[np.isfinite(batches)][:count].astype(int)


def points(run: Run, size: Size) -> list[Point]:
    """The evaluations of a run of one of the schedules, with simulated seconds."""
    batches = _batches(run, run.setting("batch_size"))
    workers = np.maximum(1, -(-batches // size.batch))
    until = {
        column: np.concatenate([[0.0], np.cumsum([MODELS[name].update(int(p)) for p in workers])])
        for name, column in SECONDS.items()
    }
    error, loss = run.column("test_error"), run.column("test_loss")
    steps, epochs = run.column("step"), run.column("epoch")
    return [
        Point(
            key=run.folder.name,
            update=int(steps[i]),
            epoch=float(epochs[i]),
            test_error=float(error[i]),
            test_loss=float(loss[i]),
            **{column: float(seconds[int(steps[i])]) for column, seconds in until.items()},
        )
        for i in np.flatnonzero(np.isfinite(error))
    ]


def publish(results: Sequence[tuple[Row, Run]], size: Size, folder: Path) -> None:
    """Write both tables, with the kept rows of runs whose folders are gone."""
    before, measured = read(folder, size)
    made = {row.key: row for row, _ in results}
    order = sorted(made.keys() | {row.key for row in before})
    rows = kept.merged(made.values(), before, order)
    tables.write([asdict(row) for row in rows], folder / table(size))
    evaluations = [point for point in measured if point.key not in made]
    evaluations += [
        point
        for row, run in results
        if row.method in SCHEDULES and row.seed in size.seeds
        for point in points(run, size)
    ]
    if evaluations:
        ordered = sorted(evaluations, key=lambda point: (point.key, point.update))
        tables.write([asdict(point) for point in ordered], folder / curves(size))


def read(folder: Path, size: Size) -> tuple[list[Row], list[Point]]:
    """What `publish` wrote, of runs as long as the plan's; no rows where there is no file."""
    rows = tables.typed(folder / table(size), Row)
    rows = [row for row in rows if row.epochs == size.epochs]
    there, measured = {row.key for row in rows}, tables.typed(folder / curves(size), Point)
    return rows, [point for point in measured if point.key in there]
