"""Each run of the DPSGD study is one row of numbers in a committed table."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from experiments.common import tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from gossip.loop.verdict import CONSTANT_PREDICTOR_BAND
from gossip.report import Run
from gossip.report.series import alpha_ratio, first_not_finite

LN_CLASSES = math.log(10)
"""Loss of the constant predictor; all data sets here have ten classes."""

KINDS = {
    "nan": "a training loss was not finite",
    "dead": "the final training loss is within 1 % of ln 10, that of a constant predictor",
    "oscillating": "in the last 100 steps the largest training loss was over 3 times the median, "
    "or the test error at the end is over twice the best",
    "stuck": "none of these, and a test error above 50 %",
    "smooth": "none of these",
}
SPIKE = 3.0
LOST = 2.0
STUCK = 0.5

_AT = "error_at_"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of the test set at the mean model w_a; NaN: not measured."""

    study: str
    key: str
    algorithm: str
    topology: str
    learners: int
    inputs: str
    alpha: float
    noise_mode: str = ""
    noise_std: float = math.nan
    seed: int
    horizon: int
    """Steps that were planned."""
    steps: int
    """Steps that were made: fewer if a loss was not finite."""
    verdict: str
    kind: str
    """One of KINDS, at the horizon."""
    kind_fixed: str
    """Kind of the run at the fixed time that runs of all lengths have in common."""
    best_error: float = math.nan
    best_step: int = 0
    final_error: float = math.nan
    final_train_loss: float = math.nan
    """Loss of w_a on the whole training set."""
    ratio_early: float = math.nan
    """alpha_e/alpha, weighted by ||g||^2, in the first fifth of the fixed time; then the middle
    and the last fifth."""
    ratio_mid: float = math.nan
    ratio_late: float = math.nan
    correlation: float = math.nan
    """Spearman's rank correlation of alpha_e/alpha and sigma_w^2 up to the fixed time."""
    sigma_w2_early: float = math.nan
    sigma_w2_late: float = math.nan
    bytes_per_step: float = math.nan
    """Bytes that a learner sends, on average."""
    seconds: float = math.nan
    """Wall time of the run, monitoring included, on one thread."""
    versions: str = ""
    error_at: dict[int, float] = field(default_factory=dict)
    """Test error at the checkpoints, by step."""


@dataclass(frozen=True)
class Result:
    """A run and its row."""

    row: Row
    run: Run


def load(scale: Scale, study: str) -> list[Result]:
    """The finished runs of a study; none if there is none."""
    made = finished(scale.runs / study).values()
    return [Result(row_of(run, study, scale), run) for run in made]


def row_of(run: Run, study: str, scale: Scale) -> Row:
    """The numbers of one run."""
    horizon, fixed = int(run.setting("steps")), scale.steps
    early, mid, late = (_window(fixed, i) for i in (0, 2, 4))
    noisy = run.setting("algorithm") == "ssgd-star"
    return Row(
        study=study,
        key=run.folder.name,
        algorithm=run.setting("algorithm"),
        topology="-" if run.setting("algorithm") != "dpsgd" else run.setting("topology"),
        learners=run.setting("learners"),
        inputs=run.setting("inputs"),
        alpha=run.setting("lr"),
        noise_mode=run.setting("noise_mode") if noisy else "",
        noise_std=run.setting("noise_std") if noisy else math.nan,
        seed=run.setting("seed"),
        horizon=horizon,
        steps=int(run.number("steps")),
        verdict=run.verdict,
        kind=kind(run, horizon, scale.late),
        kind_fixed=kind(run, fixed, scale.late),
        best_error=run.number("best_test_error"),
        best_step=int(run.number("best_step")),
        final_error=run.number("test_error"),
        final_train_loss=run.number("train_loss"),
        ratio_early=weighted_ratio(run, early),
        ratio_mid=weighted_ratio(run, mid),
        ratio_late=weighted_ratio(run, late),
        correlation=_correlation(run, fixed),
        sigma_w2_early=_mean(run, "sigma_w2", early),
        sigma_w2_late=_mean(run, "sigma_w2", late),
        bytes_per_step=run.number("bytes_sent_per_learner") / max(1.0, run.number("steps")),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
        error_at={step: error_at(run, step) for step in scale.checkpoints},
    )


def kind(run: Run, until: int, late: int) -> str:
    """The one of KINDS that a run is at step `until`, judged by the `late` steps before it."""
    at_end = until >= int(run.setting("steps"))
    bad = first_not_finite(run)
    if bad is not None and run.column("step")[bad] < until:
        return "nan"
    steps, losses = run.column("step"), run.column("train_loss")
    losses = losses[np.isfinite(losses) & (steps >= until - late) & (steps < until)]
    median = float(np.median(losses))
    loss = run.number("train_loss") if at_end else median
    if math.isnan(loss):
        return "nan"
    if abs(loss - LN_CLASSES) <= CONSTANT_PREDICTOR_BAND * LN_CLASSES:
        return "dead"
    error = error_at(run, until)
    if losses.max() > SPIKE * median or error > LOST * best_error(run, until):
        return "oscillating"
    return "stuck" if error > STUCK else "smooth"


def error_at(run: Run, step: int) -> float:
    """Test error of w_a after `step` steps; NaN if it was not evaluated there, or not finite."""
    there = (run.column("step") == step) & np.isfinite(run.column("test_error"))
    return float(run.column("test_error")[there][-1]) if there.any() else math.nan


def best_error(run: Run, until: int) -> float:
    """The lowest test error up to step `until`."""
    errors = run.column("test_error")[run.column("step") <= until]
    return float(np.nanmin(errors))


def weighted_ratio(run: Run, window: tuple[float, float]) -> float:
    """sum(alpha_e ||g||^2) / sum(alpha ||g||^2) over the monitored steps in a window."""
    steps, ratio, weight = alpha_ratio(run)
    inside = (steps >= window[0]) & (steps < window[1])
    total = weight[inside].sum()
    return float(ratio[inside] @ weight[inside] / total) if total > 0 else math.nan


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as a table; what was not measured stays empty."""
    tables.write([_flat(r) for r in sorted(rows, key=lambda row: (row.study, row.key))], path)


def read_csv(path: Path) -> list[Row]:
    """The rows that `write_csv` wrote; none if there is no file."""
    return [_row(table) for table in tables.read(path)]


def _flat(row: Row) -> dict[str, Any]:
    values = asdict(row)
    errors = values.pop("error_at")
    return values | {f"{_AT}{step}": error for step, error in errors.items()}


def _row(table: dict[str, str]) -> Row:
    names = {f.name for f in fields(Row)}
    errors = {
        int(name.removeprefix(_AT)): float(value or "nan")
        for name, value in table.items()
        if name.startswith(_AT)
    }
    known = {name: value for name, value in table.items() if name in names and value}
    return msgspec.convert(known | {"error_at": errors}, Row, strict=False)


def _window(steps: int, fifth: int) -> tuple[float, float]:
    return steps * fifth / 5, steps * (fifth + 1) / 5


def _mean(run: Run, name: str, window: tuple[float, float]) -> float:
    steps, values = run.column("step"), run.column(name)
    inside = np.isfinite(values) & (steps >= window[0]) & (steps < window[1])
    return float(values[inside].mean()) if inside.any() else math.nan


def _correlation(run: Run, until: int) -> float:
    """Rank correlation of alpha_e/alpha and sigma_w^2: alpha_e < 0 has no logarithm."""
    ratio, spread = run.column("alpha_e_ratio"), run.column("sigma_w2")
    there = np.isfinite(ratio) & (spread > 0) & (run.column("step") < until)
    if there.sum() < 3:
        return math.nan
    ranks = [np.argsort(np.argsort(values[there])) for values in (ratio, spread)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
