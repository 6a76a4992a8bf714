"""Each run of the DATE study is one row of numbers in the committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from experiments.common import tables
from experiments.common.scale import Scale
from experiments.date.plan import PARTS, STUDY, ErrorOf, runs
from experiments.date.size import study
from gossip.compare import metrics
from gossip.report import Run, load_runs
from gossip.report.rates import by_layer
from gossip.runs import sweep

TABLE = "date.csv"
WINDOW = 3
"""Measurements in the running median whose largest value is the peak of L: one alone is noise."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of a set at the final model; NaN: not measured."""

    part: str
    """Part of the study: lenet, long, needle, lipschitz or lstm."""
    key: str
    method: str
    """Method as it stands in the key: solver and method of lenet, method of lstm."""
    batch: int
    lr: float
    """The base rate: the baseline's where it is scaled."""
    seed: int
    epochs: float
    updates: int
    """Updates that were made: fewer than planned if a loss was not finite."""
    verdict: str
    validation_error: float = math.nan
    test_error: float = math.nan
    best_test_error: float = math.nan
    """Lowest test error at any evaluation: chosen on the test set, so only a bound."""
    train_loss: float = math.nan
    first_lipschitz: float = math.nan
    """L(x, g) at the first step."""
    peak_lipschitz: float = math.nan
    """Largest running median of L."""
    peak_epoch: float = math.nan
    peak_is_inside: bool = False
    """Whether it came before the last tenth of the run: else L may still be rising."""
    last_lipschitz: float = math.nan
    layer_ratios: str = ""
    """First, median and last ratio of each layer over the evaluated steps: LAYER=r:r:r LAYER=..."""
    seconds: float = math.nan
    """Wall time of the run, evaluation included, on one thread."""
    versions: str = ""


def load(scale: Scale) -> list[tuple[Row, Run]]:
    """The finished runs of the plan; runs of an older plan are left out."""
    wanted = planned(scale)
    folders = sweep.finished(scale.runs / STUDY)
    found = load_runs([folder for folder in folders if folder.name in wanted])
    return [(row_of(run), run) for run in found]


def planned(scale: Scale) -> set[str]:
    """Names of the runs that can be named by now."""
    size, error = study(scale), errors(scale)
    return {key for part in PARTS for key in runs(part, size, error)}


def errors(scale: Scale) -> ErrorOf:
    """The validation errors of the finished runs, read from their folders once."""
    known: dict[str, float] = {}
    for run in load_runs(sweep.finished(scale.runs / STUDY)):
        known[run.folder.name] = _judged(
            run.number("train_loss"), metrics.last_error(run, metrics.VALIDATION)
        )
    return known.get


def errors_of(rows: Sequence[Row]) -> ErrorOf:
    """The validation errors of the finished runs, from the rows of the table."""
    return {row.key: _judged(row.train_loss, row.validation_error) for row in rows}.get


def row_of(run: Run) -> Row:
    """The numbers of one run."""
    part, method = _names(run.folder.name)
    return Row(
        part=part,
        key=run.folder.name,
        method=method,
        batch=run.setting("learners") * run.setting("batch_size"),
        lr=run.setting("lr"),
        seed=run.setting("seed"),
        epochs=run.setting("epochs"),
        updates=int(run.number("steps")),
        verdict=run.verdict,
        validation_error=metrics.last_error(run, metrics.VALIDATION),
        test_error=metrics.last_error(run, metrics.TEST),
        best_test_error=run.number("best_test_error"),
        train_loss=run.number("train_loss"),
        **_curvature(run),
        layer_ratios=_ratios_text(run),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def curvature(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and running medians of L(x, g); nothing where it was not measured."""
    epochs, values = run.column("epoch"), run.column("lipschitz")
    there = np.isfinite(values)
    epochs, values = epochs[there], values[there]
    if len(values) < WINDOW:
        return epochs, values
    parts = np.lib.stride_tricks.sliding_window_view(values, WINDOW)
    inner = slice(WINDOW // 2, len(values) - WINDOW // 2)
    return epochs[inner], np.median(parts, axis=1)


def layer_ratios(run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Steps and ratios r by layer; nothing for a run without."""
    result = {}
    for layer, values in by_layer(run, "layer_ratio").items():
        there = np.isfinite(values)
        result[layer] = run.column("step")[there], values[there]
    return result


def parsed_ratios(row: Row) -> dict[str, tuple[float, float, float]]:
    """First, median and last ratio by layer."""
    found = {}
    for part in row.layer_ratios.split():
        layer, _, numbers = part.partition("=")
        first, middle, last = map(float, numbers.split(":"))
        found[layer] = first, middle, last
    return found


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as a table; what was not measured stays empty."""
    tables.write([asdict(row) for row in sorted(rows, key=lambda row: row.key)], path)


def read_csv(path: Path) -> list[Row]:
    """What `write_csv` wrote; no rows if there is no file."""
    found = map(tables.filled, tables.read(path))
    return [msgspec.convert(table, Row, strict=False) for table in found]


def _judged(train_loss: float, error: float) -> float:
    """The error, infinite without a finite loss; the verdict would take slow runs for dead ones."""
    return error if math.isfinite(train_loss) else math.inf


def _names(key: str) -> tuple[str, str]:
    """Part and method of a run's name, PART-METHOD-bB-lrR-seedS."""
    part, _, rest = key.partition("-")
    part = "needle" if rest.startswith("lars-") else part
    return part, rest[: rest.index("-b")]


def _curvature(run: Run) -> dict[str, Any]:
    epochs, values = curvature(run)
    if not len(values):
        return {}
    raw = run.column("lipschitz")
    raw = raw[np.isfinite(raw)]
    return {
        "first_lipschitz": float(raw[0]),
        "peak_lipschitz": float(values.max()),
        "peak_epoch": float(epochs[values.argmax()]),
        "peak_is_inside": bool(epochs[values.argmax()] < 0.9 * run.setting("epochs")),
        "last_lipschitz": float(raw[-1]),
    }


def _ratios_text(run: Run) -> str:
    return " ".join(
        f"{layer}={values[0]:.4g}:{np.median(values):.4g}:{values[-1]:.4g}"
        for layer, (_, values) in layer_ratios(run).items()
        if len(values)
    )
