"""The numbers of a comparison, a row for each run: comparison.csv."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gossip.compare import metrics
from gossip.compare.comparison import Comparison, TunedValues
from gossip.compare.methods import SINGLE
from gossip.compare.plan import Cell, Entry, entries, trial_seeds
from gossip.report import Run
from gossip.storage.folder import replacing


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run, a line of comparison.csv: its columns, in this order.

    Errors are shares of the samples judged on (of numbers, shares of their variance: 1 - R^2),
    those of `judged_by` where no column says test; an empty cell was not measured or never
    happened.
    """

    run: str
    """Its folder in runs/."""
    method: str
    learners: int
    total_batch: int
    """n B."""
    seed: int
    tuned: str
    """Values it tried, as key=value separated by blanks."""
    is_trial: bool
    """Whether it took part in the choice of these values."""
    is_chosen: bool
    """Whether it counts in the table: its values won."""
    verdict: str
    """converged or diverged."""
    is_lost: bool
    """Diverged, or ended with less than half of its best accuracy (R^2)."""
    judged_by: str
    """validation_error or test_error."""
    epochs: float
    """Samples drawn, divided by N; less than the others' if a loss was not finite."""
    updates: int
    seconds: float
    """Seconds of training, all learners' work one after the other in one thread."""
    evaluated_at: float
    """Epoch of the evaluation that `error` is of, the last that is not after --at-epoch."""
    error: float
    """At fixed data."""
    best_error: float
    last_error: float
    test_error: float
    """Test error of the final model."""
    early_stopped_error: float
    """On the test set, where the error that judges was lowest."""
    target_error: float
    epochs_to_target: float
    """Until the first evaluation at or below `target_error`."""
    updates_to_target: float
    seconds_to_target: float


def target(
    comparison: Comparison, chosen: Mapping[Cell, TunedValues], runs: Mapping[str, Run]
) -> float:
    """The error to reach: as given, or that of the single worker at its chosen values.

    NaN as long as not every seed of the single worker is there.

    Args:
        comparison: what is compared.
        chosen: values by cell.
        runs: finished runs by the key of their entry.
    """
    if comparison.target is not None:
        return comparison.target
    name = next(side.text for side in comparison.sides() if side.name == SINGLE)
    wanted = [
        entry.key
        for entry in entries(comparison, chosen)
        if entry.cell == (name, 1) and _is_chosen(comparison, entry, chosen)
    ]
    if not wanted or not all(key in runs for key in wanted):
        return math.nan
    return metrics.target_error([runs[key] for key in wanted], comparison.slack)


def rows(
    comparison: Comparison, chosen: Mapping[Cell, TunedValues], runs: Mapping[str, Run]
) -> list[Row]:
    """A row for each finished run, trials included; the arguments are those of `target`."""
    goal = target(comparison, chosen, runs)
    return [
        row_of(
            entry,
            runs[entry.key],
            at_epoch=_at_epoch(comparison, entry),
            target_error=goal,
            is_trial=entry.seed in trial_seeds(comparison),
            is_chosen=_is_chosen(comparison, entry, chosen),
        )
        for entry in entries(comparison, chosen)
        if entry.key in runs
    ]


def row_of(
    entry: Entry,
    run: Run,
    *,
    at_epoch: float,
    target_error: float,
    is_trial: bool = False,
    is_chosen: bool = True,
) -> Row:
    """The numbers of one run."""
    hit = metrics.reached(run, target_error)
    found = metrics.evaluations(run)
    config = entry.config
    return Row(
        run=entry.key,
        method=entry.cell.method,
        learners=config.gossip.learners,
        total_batch=config.gossip.learners * config.data.batch_size,
        seed=entry.seed,
        tuned=tuned_text(entry.values),
        is_trial=is_trial,
        is_chosen=is_chosen,
        verdict=run.verdict,
        is_lost=metrics.is_lost(run),
        judged_by=metrics.error_column(run),
        epochs=float(found.epochs[-1]) if len(found.epochs) else math.nan,
        updates=int(run.number("steps")),
        seconds=float(found.seconds[-1]) if len(found.seconds) else math.nan,
        evaluated_at=metrics.evaluated_at(run, at_epoch),
        error=metrics.error_at(run, at_epoch),
        best_error=metrics.best_error(run),
        last_error=metrics.last_error(run),
        test_error=metrics.last_error(run, metrics.TEST),
        early_stopped_error=metrics.early_stopped_error(run),
        target_error=target_error,
        epochs_to_target=hit.epochs if hit else math.nan,
        updates_to_target=float(hit.updates) if hit else math.nan,
        seconds_to_target=hit.seconds if hit else math.nan,
    )


def tuned_text(values: TunedValues) -> str:
    """Tuned values for a table."""
    return " ".join(f"{key}={value}" for key, value in values)


def write_csv(made: Sequence[Row], path: Path) -> Path:
    """Write the rows under the names of `Row`'s fields; NaN is an empty cell.

    Raises:
        UserError: the file cannot be written.
    """
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _cell(v) for k, v in asdict(row).items()} for row in made)
    return path


def _at_epoch(comparison: Comparison, entry: Entry) -> float:
    """Where a run is compared: its end is up to a step after the last epoch, but not a tau's.

    A step of a batch that grows is up to an epoch long.
    """
    end = comparison.base.epochs or math.inf
    at = end if comparison.at_epoch is None else comparison.at_epoch
    batch = entry.cell.learners * comparison.base.data.batch_size
    grows = entry.config.damping.damping != "none"
    return at if at < end else at + (1.0 if grows else batch / comparison.samples)


def _is_chosen(comparison: Comparison, entry: Entry, chosen: Mapping[Cell, TunedValues]) -> bool:
    return chosen.get(entry.cell) == entry.values and entry.seed in comparison.seeds


def _cell(value: object) -> object:
    return "" if isinstance(value, float) and math.isnan(value) else value
