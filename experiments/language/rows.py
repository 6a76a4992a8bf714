"""Each run of the study is one row of a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.language.plan import STUDY, Cell, cells
from experiments.language.size import Size, study
from gossip.report import Run

TABLE = "language.csv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Losses are in nats a byte, of the mean model at the end."""

    key: str
    arm: str
    warmup: int
    peak: float
    seed: int
    steps: int
    verdict: str
    survived: bool
    """Not diverged, and a test loss at the end below the study's bound."""
    test_loss: float = math.nan
    train_loss: float = math.nan
    seconds: float = math.nan
    versions: str = ""


def load(scale: Scale) -> list[Row]:
    """The finished runs, in the order of the plan, with the kept rows."""
    size, folder = study(scale), scale.runs / STUDY
    wanted = {cell.key(seed): cell for cell in cells(size) for seed in size.seeds}
    made = [row_of(run, wanted[name], size) for name, run in finished(folder, wanted).items()]
    return kept.merged(made, read(scale), list(wanted))


def row_of(run: Run, cell: Cell, size: Size) -> Row:
    """The numbers of one run."""
    loss = run.number("test_loss")
    return Row(
        key=run.folder.name,
        arm=cell.arm,
        warmup=cell.warmup,
        peak=cell.peak,
        seed=run.setting("seed"),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        survived=run.verdict != "diverged" and loss < size.failed,
        test_loss=loss,
        train_loss=run.number("train_loss"),
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
