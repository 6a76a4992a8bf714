"""Each run of the study is one row of a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.noise.arms import ARMS
from experiments.noise.plan import STUDY, key
from experiments.noise.size import Cell, Size, study
from gossip.report import Run

TABLE = "noise.csv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of the test set, of the mean model."""

    key: str
    cell: str
    arm: str
    seed: int
    steps: int
    verdict: str
    survived: bool
    """Not diverged, and a test error at the end below the cell's bound."""
    test_error: float = math.nan
    best_error: float = math.nan
    train_loss: float = math.nan
    sigma_w2: float = math.nan
    """Median over the evaluated steps of the first fifth: how strong the noise was."""
    seconds: float = math.nan
    versions: str = ""


def load(scale: Scale) -> list[Row]:
    """The finished runs that the study judges, in the order of its plan, with the kept rows."""
    size, folder = study(scale), scale.runs / STUDY
    judged = {
        key(cell, arm, seed): (cell, arm)
        for cell, seed, arm in product(size.cells, size.seeds, ARMS)
    }
    made = [row_of(run, *judged[name], size) for name, run in finished(folder, judged).items()]
    return kept.merged(made, read(scale), list(judged))


def row_of(run: Run, cell: Cell, arm: str, size: Size) -> Row:
    """The numbers of one run."""
    error = run.number("test_error")
    steps, spread = run.column("step"), run.column("sigma_w2")
    early = spread[np.isfinite(spread) & (steps > 0) & (steps < size.steps / 5)]
    return Row(
        key=run.folder.name,
        cell=cell.name,
        arm=arm,
        seed=run.setting("seed"),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        survived=run.verdict != "diverged" and error < cell.failed,
        test_error=error,
        best_error=run.number("best_test_error"),
        train_loss=run.number("train_loss"),
        sigma_w2=float(np.median(early)) if len(early) else math.nan,
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in sorted(rows, key=lambda row: row.key)], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    size = study(scale)
    return kept.of_plan(tables.typed(scale.results / TABLE, Row), lambda row: size.steps)
