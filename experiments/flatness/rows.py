"""Each level of each run is one row of a committed table."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.flatness.plan import ARMS, STUDY, key, runs
from experiments.flatness.size import Cell, Size, study
from gossip.config import Config
from gossip.landscape.command import at_level
from gossip.report import Run
from gossip.storage.names import CHECKPOINTS

TABLE = "flatness.csv"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run where its training loss is first at most a level; NaN where it never was.

    What is measured is of the mean model, the loss that of all training samples: see
    `gossip.landscape.measure`. Errors are shares of the test set.
    """

    key: str
    alpha: float
    arm: str
    seed: int
    level: float
    verdict: str
    steps: int | None = None
    """Of the whole run."""
    step: int = -1
    """Steps it had taken there; -1: the loss never was so low."""
    loss: float = math.nan
    learners_loss: float = math.nan
    test_loss: float = math.nan
    test_error: float = math.nan
    lambda_max: float = math.nan
    trace: float = math.nan
    trace_error: float = math.nan
    random: float = math.nan
    ascent: float = math.nan
    grad_norm: float = math.nan
    consensus_distance: float = math.nan
    barrier: float = math.nan
    behind: float = math.nan
    """L(w_a - (w_j - w_a)) - L(w_a), mean over the learners."""
    beyond: float = math.nan
    """L(w_a + 2 (w_j - w_a)) - L(w_a), mean over the learners."""
    seconds: float = math.nan
    """Of the run and of measuring it, in the row of the highest level alone."""
    versions: str = ""


def row_key(run: str, level: float) -> str:
    """The name of a row."""
    return f"{run}-loss{level:g}"


def missing(wanted: dict[str, Config], size: Size, rows: Sequence[Row]) -> dict[str, Config]:
    """The runs of which the row of a level is missing."""
    there = {row.key for row in rows}
    return {
        name: config
        for name, config in wanted.items()
        if not there.issuperset(row_key(name, level) for level in size.levels)
    }


def load(scale: Scale) -> list[Row]:
    """The rows of the runs that are finished and measured, with the kept rows."""
    size = study(scale)
    planned = {
        key(cell, arm, seed): (cell, arm)
        for seed in size.seeds
        for cell in size.cells
        for arm in ARMS
    }
    made = [
        row_of(run, *planned[name], level, size)
        for name, run in complete(scale, planned).items()
        for level in size.levels
    ]
    order = [row_key(name, level) for name in runs(size) for level in size.levels]
    return kept.merged(made, read(scale), order)


def complete(scale: Scale, wanted: Iterable[str]) -> dict[str, Run]:
    """The finished runs by name whose checkpoints are gone, so that they have been measured."""
    there = finished(scale.runs / STUDY, wanted)
    return {name: run for name, run in there.items() if not (run.folder / CHECKPOINTS).exists()}


def row_of(run: Run, cell: Cell, arm: str, level: float, size: Size) -> Row:
    """The numbers of one level of one run."""
    found = {at: measured(run.folder, at) for at in size.levels}
    row = Row(
        key=row_key(run.folder.name, level),
        alpha=cell.alpha,
        arm=arm,
        seed=run.setting("seed"),
        level=level,
        verdict=run.verdict,
        steps=int(run.number("steps")),
        versions=tables.versions(run),
    )
    if level == size.levels[0]:
        measuring = sum(shown["seconds"] for shown in found.values() if shown)
        row = replace(row, seconds=run.number("wall_seconds", "total") + measuring)
    shown = found[level]
    if shown is None:
        return row
    numbers: dict[str, Any] = {
        name: value
        for name, value in shown["numbers"].items()
        if name in Row.__annotations__ and value is not None  # null: what has no finite number
    }
    behind, beyond = rises(shown)
    return replace(row, step=shown["step"], behind=behind, beyond=beyond, **numbers)


def measured(folder: Path, level: float) -> dict[str, Any] | None:
    """What `gossip.landscape` has left of a level; None: the run never came to it."""
    path = folder / f"{at_level(level)}.json"
    if not path.exists():
        return None
    return json.loads(path.read_text(encoding="utf-8"))


def rises(shown: dict[str, Any]) -> tuple[float, float]:
    """`Row.behind` and `Row.beyond`; NaN of learners that share one model."""
    here = shown["numbers"]["loss"]
    lines = [line for name, line in shown["lines"].items() if name.startswith("mean to")]
    if not lines:
        return math.nan, math.nan
    ends = np.array([[line["loss"][0], line["loss"][-1]] for line in lines]) - here
    behind, beyond = ends.mean(axis=0)
    return float(behind), float(beyond)


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in sorted(rows, key=lambda row: row.key)], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    steps = {cell.alpha: cell.steps for cell in study(scale).cells}
    found = tables.typed(scale.results / TABLE, Row)
    return kept.of_plan(found, lambda row: steps.get(row.alpha, row.steps or 0))
