"""Each run of the tuned tables is one row of a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.lena.rows import warm_ends
from experiments.lena.tuned import plan
from experiments.lena.tuned.plan import STUDY, ErrorOf
from gossip.compare import metrics
from gossip.report import Run

TABLE = "lena_tuned.csv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of the validation or test set, at the end of the run."""

    key: str
    scaling: str
    warmup: str
    learners: int
    lr: float
    """The base rate."""
    seed: int
    steps: int
    verdict: str
    lost: bool
    """Diverged, or ended with less than half of its best accuracy."""
    validation_error: float = math.nan
    test_error: float = math.nan
    train_loss: float = math.nan
    cold: int = 0
    """Number of layers that never had their full rate, of the `layers` whose end is known."""
    layers: int = 0
    warm_last: float = math.nan
    """Epochs until the last of the others had it."""
    seconds: float = math.nan
    """Wall time on one thread, evaluation included."""
    versions: str = ""


def load(scale: Scale) -> list[Row]:
    """The finished runs of the plan, in its order, with the kept rows."""
    made, shared = plan.size(scale), plan.study(scale)
    rows = {row.key: row for row in [*read(scale), *_finished(scale)]}
    wanted = [key for cell in made.cells for key in plan.runs(cell, made, shared, known(rows))]
    there = [rows[key] for key in wanted if key in rows]
    return kept.merged(there, read(scale), wanted)


def errors(scale: Scale) -> ErrorOf:
    """The validation errors of the finished runs and of the kept rows."""
    return known({row.key: row for row in [*read(scale), *_finished(scale)]})


def known(rows: dict[str, Row]) -> ErrorOf:
    """The validation errors of rows, by name; NaN of a run without a finite loss."""
    return {key: row.validation_error for key, row in rows.items()}.get


def _finished(scale: Scale) -> list[Row]:
    return [row_of(run) for run in finished(scale.runs / STUDY).values()]


def row_of(run: Run) -> Row:
    """The numbers of one run."""
    ends = warm_ends(run)
    warm = [end for end in ends.values() if math.isfinite(end)]
    return Row(
        key=run.folder.name,
        **{name: run.setting(name) for name in ("scaling", "warmup", "learners", "lr", "seed")},
        steps=int(run.number("steps")),
        verdict=run.verdict,
        lost=metrics.is_lost(run),
        validation_error=metrics.last_error(run, metrics.VALIDATION),
        test_error=metrics.last_error(run, metrics.TEST),
        train_loss=run.number("train_loss"),
        cold=len(ends) - len(warm),
        layers=len(ends),
        warm_last=max(warm, default=math.nan),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def write(rows: Sequence[Row], scale: Scale) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in rows], scale.results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    found, task, batch = (
        tables.typed(scale.results / TABLE, Row),
        plan.size(scale).task,
        plan.study(scale).batch,
    )
    return kept.of_plan(
        found, lambda row: math.ceil(task.epochs * task.samples / (row.learners * batch))
    )
