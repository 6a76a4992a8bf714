"""Each run of the study is one row of a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.fight.doubling import TABLES
from experiments.fight.plan import EDGE, FIGHT, STUDY, ErrorOf, names
from experiments.fight.size import Size, study
from gossip.report import Run

TABLE = "fight.csv"
PLACE = {EDGE: 0, TABLES: 1, FIGHT: 2}
"""How many words of a run's name stand between its part and its method."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of the validation or test set, of the mean model."""

    key: str
    part: str
    method: str
    batch: int
    """n B."""
    momentum: float
    alpha: float
    seed: int
    steps: int
    verdict: str
    survived: bool
    """Not diverged, and a test error at the end below the study's bound."""
    validation_error: float = math.nan
    """At the end; of the fight alone."""
    test_error: float = math.nan
    best_error: float = math.nan
    """Lowest test error of those evaluated."""
    train_loss: float = math.nan
    seconds: float = math.nan
    """Wall time on one thread, evaluation included."""
    versions: str = ""


def errors(scale: Scale) -> ErrorOf:
    """The validation errors of the finished runs, read from their folders or the kept rows."""
    made = {name: _validation_error(run) for name, run in finished(scale.runs / STUDY).items()}
    return (known(read(scale)) | made).get


def known(rows: Sequence[Row]) -> dict[str, float]:
    """The validation errors of the rows, by name; infinite where there is no number."""
    return {
        row.key: math.inf if math.isnan(row.validation_error) else row.validation_error
        for row in rows
        if row.part == FIGHT
    }


def load(scale: Scale) -> list[Row]:
    """The finished runs of the plan, in its order, with the kept rows."""
    size = study(scale)
    wanted = names(size, errors(scale))
    made = [row_of(run, size) for run in finished(scale.runs / STUDY, wanted).values()]
    return kept.merged(made, read(scale), wanted)


def row_of(run: Run, size: Size) -> Row:
    """The numbers of one run."""
    part, *words = run.folder.name.split("-")
    error = run.number("test_error")
    return Row(
        key=run.folder.name,
        part=part,
        method="-".join(words[PLACE[part] : -2]),
        batch=run.setting("batch_size") * size.learners,
        momentum=run.setting("momentum"),
        alpha=run.setting("lr"),
        seed=run.setting("seed"),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        survived=run.verdict != "diverged" and error < size.failed,
        validation_error=_validation_error(run) if part == FIGHT else math.nan,
        test_error=error,
        best_error=run.number("best_test_error"),
        train_loss=run.number("train_loss"),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in rows], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    size = study(scale)
    return kept.of_plan(tables.typed(scale.results / TABLE, Row), lambda row: _steps(row, size))


def _steps(row: Row, size: Size) -> int:
    if row.part == EDGE:
        return size.edge_steps
    return (size.samples if row.part == FIGHT else size.doubling_samples) // row.batch


def _validation_error(run: Run) -> float:
    """At the end; infinite if there is no number."""
    found = run.number("validation_error")
    return math.inf if math.isnan(found) else found
