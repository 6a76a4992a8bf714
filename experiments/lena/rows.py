"""Each run of the LENA study and of its rivals is one row of numbers in a committed table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import numpy as np

from experiments.common import tables
from experiments.common.scale import Scale
from experiments.lena import plan
from experiments.lena.plan import SINGLE, STUDY, ErrorOf, Study, Task
from gossip.compare import metrics
from gossip.config import Config
from gossip.report import Run, load_runs
from gossip.report.rates import by_layer
from gossip.runs import sweep

SLACK = 3.0
"""Percentage points that the second, easier target is below the single worker's accuracy."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of the held-out validation samples, if nothing else is said."""

    key: str
    dataset: str
    model: str
    algorithm: str
    topology: str
    scaling: str
    warmup: str
    optimizer: str
    layer_ratio: str
    learners: int
    lr: float
    seed: int
    epochs: float
    updates: int
    """Number of planned updates."""
    steps: int
    """Updates that were made: fewer if a loss was not finite."""
    verdict: str
    lost: bool
    """Diverged, or ended with less than half of its best accuracy."""
    half_error: float = math.nan
    """Error after half of the data, where the paper compares."""
    best_error: float = math.nan
    last_error: float = math.nan
    test_error: float = math.nan
    """Test error where the validation error was lowest."""
    last_test_error: float = math.nan
    target_epochs: float = math.nan
    """Epochs until the validation error was at most the single worker's mean best error; NaN:
    never."""
    target_updates: float = math.nan
    target_seconds: float = math.nan
    easy_epochs: float = math.nan
    """Epochs until the validation error was at most SLACK above that target; NaN: never."""
    easy_updates: float = math.nan
    grad_var_early: float = math.nan
    """Gradient variance of the whole model, mean over the first third of the run."""
    grad_var_late: float = math.nan
    """... and over the last third."""
    layer_low: float = math.nan
    """Least and greatest of the layers' gradient variances, each averaged over the run."""
    layer_high: float = math.nan
    warm_first: float = math.nan
    """Epochs until the first layer had its full rate, and the last of those that got there."""
    warm_last: float = math.nan
    cold: int = 0
    """Number of layers that never had their full rate, of the `layers` in the model."""
    layers: int = 0
    bytes_per_step: float = math.nan
    """Bytes that a learner sends, on average."""
    seconds: float = math.nan
    """Wall time of the run on one thread, evaluation included."""
    versions: str = ""


@dataclass(frozen=True)
class Result:
    """A run and its row."""

    row: Row
    run: Run


def error_of(folder: Path, config: Config) -> float | None:
    """Best validation error of a finished run, infinite if it is lost; None if there is none."""
    if not sweep.is_finished(folder, config):
        return None
    run = load_runs([folder])[0]
    return math.inf if metrics.is_lost(run) else metrics.best_error(run)


def errors(rows: Iterable[Row]) -> ErrorOf:
    """The best validation errors of rows by name, infinite for lost runs."""
    found = {row.key: math.inf if row.lost else row.best_error for row in rows}
    return found.get


def load(scale: Scale) -> dict[str, Result]:
    """The finished runs of both studies, by name."""
    runs = {run.folder.name: run for run in load_runs(sweep.finished(scale.runs / STUDY))}
    made = plan.study(scale)
    targets = {task.prefix: target_of(made, task, runs) for task in (made.main, made.small)}
    small = made.small.prefix
    return {
        key: Result(row_of(run, targets[small if key.startswith(small) else ""]), run)
        for key, run in runs.items()
    }


def target_of(made: Study, task: Task, runs: Mapping[str, Run]) -> float:
    """The error to reach: the single worker's at its best rate; NaN as long as it is not known."""

    def error(key: str) -> float | None:
        return metrics.best_error(runs[key]) if key in runs else None

    lr = plan.base_rate(made, task, error)
    if lr is None:
        return math.nan
    keys = (plan.key(task, SINGLE, 1, lr, seed) for seed in range(made.base_seeds))
    return metrics.target_error([runs[key] for key in keys if key in runs])


def row_of(run: Run, target: float) -> Row:
    """The numbers of one run."""
    epochs, planned = run.setting("epochs"), run.number("steps_planned")
    reached = metrics.reached(run, target)
    easy = metrics.reached(run, target + SLACK / 100)
    early, late = _grad_var(run, 0, 1 / 3), _grad_var(run, 2 / 3, 1)
    by_layer = [float(np.nanmean(values)) for values in traces(run, "grad_var").values()]
    ends = warm_ends(run)
    warm = [end for end in ends.values() if math.isfinite(end)]
    return Row(
        key=run.folder.name,
        topology=run.setting("topology") if run.setting("algorithm") == "dpsgd" else "-",
        **{name: run.setting(name) for name in _SETTINGS},
        epochs=epochs,
        updates=int(planned),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        lost=metrics.is_lost(run),
        half_error=metrics.error_at(run, epochs / 2),
        best_error=metrics.best_error(run),
        last_error=metrics.last_error(run),
        test_error=metrics.early_stopped_error(run),
        last_test_error=metrics.last_error(run, metrics.TEST),
        target_epochs=reached.epochs if reached else math.nan,
        target_updates=reached.updates if reached else math.nan,
        target_seconds=reached.seconds if reached else math.nan,
        easy_epochs=easy.epochs if easy else math.nan,
        easy_updates=easy.updates if easy else math.nan,
        grad_var_early=early,
        grad_var_late=late,
        layer_low=min(by_layer, default=math.nan),
        layer_high=max(by_layer, default=math.nan),
        warm_first=min(warm, default=math.nan),
        warm_last=max(warm, default=math.nan),
        cold=len(ends) - len(warm),
        layers=len(ends),
        bytes_per_step=run.number("bytes_sent_per_learner") / max(1.0, run.number("steps")),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


_SETTINGS = (
    *("dataset", "model", "algorithm", "scaling", "warmup", "optimizer", "layer_ratio"),
    *("learners", "lr", "seed"),
)


def traces(run: Run, name: str) -> dict[str, np.ndarray]:
    """The values recorded of each layer, by layer: [rows]; layers without any are left out."""
    return {k: values for k, values in by_layer(run, name).items() if np.isfinite(values).any()}


def warm_ends(run: Run) -> dict[str, float]:
    """Epochs after which each layer had its full rate; NaN: never; empty: not state-aware."""
    per_step = run.setting("epochs") / run.number("steps_planned")
    ends = {}
    for layer, values in by_layer(run, "warmup_end").items():
        finite = values[np.isfinite(values)]
        ends[layer] = float(finite[-1]) * per_step if len(finite) else math.nan
    return ends


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as a table; what was not measured stays empty."""
    tables.write([asdict(row) for row in sorted(rows, key=lambda row: row.key)], path)


def read_csv(path: Path) -> dict[str, Row]:
    """The rows that `write_csv` wrote, by name; empty if there is no file."""
    found = map(tables.filled, tables.read(path))
    return {table["key"]: msgspec.convert(table, Row, strict=False) for table in found}


def _grad_var(run: Run, start: float, stop: float) -> float:
    """Mean of the whole model's gradient variance over a part of the run."""
    if "grad_var" not in run.trace.column_names:
        return math.nan
    steps, values = run.column("step"), run.column("grad_var")
    total = run.number("steps_planned")
    inside = np.isfinite(values) & (steps >= start * total) & (steps < stop * total)
    return float(values[inside].mean()) if inside.any() else math.nan
