"""Each run of the study is one row of a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.nets.plan import PARTS, STUDY, Known, runs
from experiments.nets.size import Size, Task, study
from gossip.report import Run

TABLE = "nets.csv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Losses and errors are of the mean model at the end, errors shares of 1."""

    key: str
    task: str
    arm: str
    batch: int
    """n B."""
    alpha: float
    """Peak rate."""
    std: float = 0.0
    """sigma_0 of SSGD*."""
    seed: int
    steps: int
    verdict: str
    survived: bool
    """Not diverged, and a test loss at the end below the task's bound."""
    validation_loss: float = math.nan
    test_loss: float = math.nan
    test_error: float = math.nan
    train_loss: float = math.nan
    seconds: float = math.nan
    """Wall time on one thread, evaluation included, whatever else the machine had to do."""
    versions: str = ""


def names(size: Size, known: Known) -> list[str]:
    """The names of all runs that can be named by now, in the order in which they are made."""
    return list(
        dict.fromkeys(
            name for part in PARTS for task in size.tasks for name in runs(task, part, size, known)
        )
    )


def made(scale: Scale) -> dict[str, Row]:
    """The rows of the finished runs and the kept ones, by name."""
    size = study(scale)
    tasks = {task.name: task for task in size.tasks}
    fresh = {
        name: row_of(run, task)
        for name, run in finished(scale.runs / STUDY).items()
        if (task := tasks.get(name.split("-")[0])) is not None
    }
    return {row.key: row for row in read(scale)} | fresh


def load(scale: Scale) -> list[Row]:
    """The rows of the plan in its order, then kept ones that have no place in it."""
    found = made(scale)
    return kept.merged(found.values(), read(scale), names(study(scale), found.get))


def row_of(run: Run, task: Task) -> Row:
    """The numbers of one run."""
    loss = run.number("test_loss")
    return Row(
        key=run.folder.name,
        task=task.name,
        arm=run.folder.name.split("-")[1],
        batch=run.setting("batch_size") * run.setting("learners"),
        alpha=run.setting("lr"),
        std=run.setting("noise_std"),
        seed=run.setting("seed"),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        survived=run.verdict != "diverged" and loss < task.failed,
        validation_loss=run.number("validation_loss"),
        test_loss=loss,
        test_error=run.number("test_error"),
        train_loss=run.number("train_loss"),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in rows], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    tasks = {task.name: task for task in study(scale).tasks}
    found = [row for row in tables.typed(scale.results / TABLE, Row) if row.task in tasks]
    return kept.of_plan(found, lambda row: tasks[row.task].steps(row.batch))
