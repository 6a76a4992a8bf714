"""Each run after each measured step is one row of a committed table."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.smoothness.measuring import NAME
from experiments.smoothness.plan import STUDY, runs
from experiments.smoothness.size import Size, study
from gossip.config import Config
from gossip.report import Run

TABLE = "smoothness.csv"
ERROR = 0.2
"""Share of the test set below which a run that has not diverged has survived."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run after one step; NaN where its weights were not finite, or SSGD has no such number.

    Beginnings of names: what the loss is averaged over, see `gossip.landscape.smoothing`.
    """

    key: str
    alpha: float
    arm: str
    seed: int
    step: int
    """Of the measurement."""
    verdict: str
    steps: int | None = None
    """Of the whole run."""
    test_error: float = math.nan
    """Of the whole run, a share."""
    none_loss: float = math.nan
    none_lambda_max: float = math.nan
    none_difference: float = math.nan
    learners_sigma: float = math.nan
    learners_bound: float = math.nan
    learners_loss: float = math.nan
    learners_lambda_max: float = math.nan
    learners_difference: float = math.nan
    gaussian1_loss: float = math.nan
    gaussian1_lambda_max: float = math.nan
    gaussian1_difference: float = math.nan
    gaussian10_loss: float = math.nan
    gaussian10_lambda_max: float = math.nan
    gaussian10_difference: float = math.nan
    gaussian30_loss: float = math.nan
    gaussian30_lambda_max: float = math.nan
    gaussian30_difference: float = math.nan
    seconds: float = math.nan
    """Of the run and of measuring it, in the row of its first step alone."""
    versions: str = ""

    @property
    def survived(self) -> bool:
        """Whether the run came to a model."""
        return self.verdict != "diverged" and self.test_error < ERROR


def row_key(run: str, step: int) -> str:
    """The name of a row."""
    return f"{run}-step{step}"


def missing(wanted: dict[str, Config], size: Size, rows: Sequence[Row]) -> dict[str, Config]:
    """The runs of which the row of a step is missing."""
    there = {row.key for row in rows}
    return {
        name: config
        for name, config in wanted.items()
        if not there.issuperset(row_key(name, step) for step in size.at)
    }


def load(scale: Scale) -> list[Row]:
    """The rows of the runs that are finished and measured, with the kept rows."""
    size = study(scale)
    wanted = runs(size)
    made = [
        row
        for name, run in finished(scale.runs / STUDY, wanted).items()
        if (run.folder / NAME).exists()
        for row in rows_of(run, wanted[name], size)
    ]
    order = [row_key(name, step) for name in wanted for step in size.at]
    return kept.merged(made, read(scale), order)


def rows_of(run: Run, config: Config, size: Size) -> list[Row]:
    """A row for each measured step, and one without numbers for those a diverged run did not take.

    A step that was not asked for when the run was measured has none: the run is made again.
    """
    found = json.loads((run.folder / NAME).read_text(encoding="utf-8"))
    (arm,) = config.algorithm
    seconds, taken = run.number("wall_seconds", "total") + found["seconds"], run.number("steps")
    names = Row.__annotations__.keys()
    return [
        Row(
            key=row_key(run.folder.name, step),
            alpha=config.rate.lr,
            arm=arm,
            seed=config.seed,
            step=step,
            verdict=run.verdict,
            steps=int(taken),
            test_error=run.number("test_error"),
            seconds=seconds if step == size.at[0] else math.nan,
            versions=tables.versions(run),
            **{
                name: value
                for name, value in found["steps"].get(str(step), {}).items()
                if name in names
            },
        )
        for step in size.at
        if str(step) in found["steps"] or (run.verdict == "diverged" and step > taken)
    ]


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in rows], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    steps = study(scale).steps
    return kept.of_plan(tables.typed(scale.results / TABLE, Row), lambda _: steps)
