"""Each run of the DATE study is one row of numbers in the committed table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.date import lipschitz, plan
from experiments.date.methods import BY_LOSS
from experiments.date.plan import LIPSCHITZ, PARTS, STUDY, ErrorOf
from experiments.date.size import Study, study
from gossip.compare import metrics
from gossip.report import Run
from gossip.report.rates import by_layer

TABLE = "date.csv"
WINDOW = 3
"""Measurements in the running median whose largest value is the peak of L: one alone is noise."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Errors are shares of a set at the final model; NaN: not measured."""

    key: str
    task: str
    """One of METHODS, or lipschitz."""
    method: str
    batch: int
    lr: float
    """The base rate: the baseline's where it is scaled."""
    seed: int
    epochs: float
    steps: int
    verdict: str
    validation_error: float = math.nan
    test_error: float = math.nan
    validation_loss: float = math.nan
    test_loss: float = math.nan
    train_loss: float = math.nan
    peak_lipschitz: float = math.nan
    """Largest running median of L(x, g)."""
    peak_epoch: float = math.nan
    peak_is_inside: bool = False
    """Whether it came before the last tenth of the run: else L may still be rising."""
    ratio_spread: float = math.nan
    """Largest over least of the layers' median ratios r."""
    ratio_change: float = math.nan
    """Largest over least of the first and last ratio, of the layer that changes most."""
    seconds: float = math.nan
    """Wall time of the run, evaluation included, on one thread."""
    versions: str = ""

    @property
    def tunes(self) -> float:
        """What a trial is compared by: the error, or loss, on the samples held out."""
        return self.validation_loss if self.task in BY_LOSS else self.validation_error


def names(size: Study, error: ErrorOf) -> list[str]:
    """The names of all runs that can be named by now."""
    cells = (cell for part in PARTS.values() for cell in part)
    found = [*lipschitz.runs(size), *(key for c in cells for key in plan.runs(c, size, error))]
    return list(dict.fromkeys(found))


def load(scale: Scale) -> list[Row]:
    """The finished runs of the plan, in its order, with the kept rows."""
    rows = {row.key: row for row in [*read(scale), *_finished(scale)]}
    wanted = names(study(scale), known(rows))
    return kept.merged([rows[key] for key in wanted if key in rows], read(scale), wanted)


def errors(scale: Scale) -> ErrorOf:
    """The validation errors of the finished runs and of the kept rows."""
    return known({row.key: row for row in [*read(scale), *_finished(scale)]})


def known(rows: Mapping[str, Row]) -> ErrorOf:
    """The validation errors, or losses, of rows, by name; infinite without a finite loss."""
    return {
        key: row.tunes if math.isfinite(row.train_loss) else math.inf for key, row in rows.items()
    }.get


def _finished(scale: Scale) -> list[Row]:
    return [row_of(run) for run in finished(scale.runs / STUDY).values()]


def row_of(run: Run) -> Row:
    """The numbers of one run."""
    task, _, rest = run.folder.name.partition("-")
    return Row(
        key=run.folder.name,
        task=task,
        method=rest[: rest.index("-b")],
        batch=run.setting("learners") * run.setting("batch_size"),
        lr=run.setting("lr"),
        seed=run.setting("seed"),
        epochs=run.setting("epochs"),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        validation_error=metrics.last_error(run, metrics.VALIDATION),
        test_error=metrics.last_error(run, metrics.TEST),
        validation_loss=metrics.last_error(run, "validation_loss"),
        test_loss=metrics.last_error(run, "test_loss"),
        train_loss=run.number("train_loss"),
        **peak_of(run.column("epoch"), run.column("lipschitz")),
        **_ratios(run),
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
    )


def write(rows: Sequence[Row], scale: Scale) -> None:
    """Write the table; what was not measured stays empty."""
    tables.write([asdict(row) for row in rows], scale.results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    found, size = tables.typed(scale.results / TABLE, Row), study(scale)
    return kept.of_plan(found, lambda row: _steps(row, size))


def _steps(row: Row, size: Study) -> int:
    if row.task == LIPSCHITZ:
        lengths = {batch: epochs for batch, epochs, _ in size.lipschitz.cells}
        return math.ceil(lengths.get(row.batch, 0.0) * size.lipschitz.samples / row.batch)
    task = size.task(row.task)
    return math.ceil(task.epochs * task.samples / row.batch)


def peak_of(epochs: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Peak of the running median of L(x, g); nothing where it was not measured.

    It is inside if L has risen to it, and if it comes before the last tenth of what was measured:
    a run that L rises in until it diverges has none.
    """
    there = np.isfinite(values)
    epochs, values = epochs[there], values[there]
    if len(values) < WINDOW:
        return {}
    inner = slice(WINDOW // 2, len(values) - WINDOW // 2)
    epochs = epochs[inner]
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, WINDOW), axis=1)
    peak = int(medians.argmax())
    return {
        "peak_lipschitz": float(medians.max()),
        "peak_epoch": float(epochs[peak]),
        "peak_is_inside": bool(peak > 0 and epochs[peak] < 0.9 * epochs[-1]),
    }


def _ratios(run: Run) -> dict[str, Any]:
    """How much layer ratios differ and change; nothing for a run without."""
    layers = [v[np.isfinite(v)] for v in by_layer(run, "layer_ratio").values()]
    layers = [values for values in layers if len(values)]
    if not layers:
        return {}
    middles = [float(np.median(values)) for values in layers]
    ends = [(float(values[0]), float(values[-1])) for values in layers]
    return {
        "ratio_spread": max(middles) / min(middles),
        "ratio_change": max(max(pair) / min(pair) for pair in ends),
    }
