"""Rows of the DATE study are grouped: the seeds of a method at its chosen rate."""

import math
from collections.abc import Sequence

from experiments.date import plan
from experiments.date.rows import Row, errors_of
from experiments.date.size import Study

GUESSING = 0.9
"""Test error of a run without a model: its loss was not finite."""


def test_error(row: Row) -> float:
    """Test error of the final model; that of guessing for a run that has none."""
    return row.test_error if math.isfinite(row.train_loss) else GUESSING


def lenet_runs(rows: Sequence[Row], size: Study, solver: str, method: str, batch: int) -> list[Row]:
    """The runs of a method at its chosen rate, by seed; none as long as some are missing."""
    of = size.lenet
    tuned = plan.lenet_rates(size, solver, errors_of(rows))
    lr = tuned["date" if method == "date" else "manual"]
    if lr is None:
        return []
    more = method in tuned and (method, batch) != ("date", of.baseline)
    seeds = range(of.seeds if more else 1)
    names = [plan.lenet_name(batch, solver, method, lr, seed) for seed in seeds]
    return _named(rows, names)


def needle_runs(rows: Sequence[Row], size: Study) -> dict[float, list[Row]]:
    """The runs of the fine grid by rate; nothing as long as some are missing."""
    rates = plan.needle_rates(size, errors_of(rows))
    seeds = range(size.needle.seeds)
    found = {lr: _named(rows, [plan.needle_name(size, lr, seed) for seed in seeds]) for lr in rates}
    return found if all(found.values()) else {}


def lstm_runs(rows: Sequence[Row], size: Study, method: str, batch: int) -> list[Row]:
    """The runs of a method at its chosen rate: the first seed, and others that are there."""
    lr = plan.lstm_rate(size, method, batch, errors_of(rows))
    if lr is None:
        return []
    first = _named(rows, [plan.name("lstm", method, batch, lr, 0)])
    wanted = {plan.name("lstm", method, batch, lr, seed) for seed in range(size.lstm.seeds)}
    return sorted((row for row in rows if row.key in wanted), key=lambda r: r.seed) if first else []


def lipschitz_runs(rows: Sequence[Row], size: Study) -> dict[int, list[Row]]:
    """The runs of each batch size; nothing as long as some are missing."""
    of = size.lipschitz
    found = {
        batch: _named(
            rows,
            [plan.name("lipschitz", "momentum", batch, of.lr, seed) for seed in range(of.seeds)],
        )
        for batch, _ in of.every
    }
    return found if all(found.values()) else {}


def ratio_run(rows: Sequence[Row], size: Study) -> Row | None:
    """DATE on RMSProp at the large batch, the run of Fig. 12."""
    found = lenet_runs(rows, size, "rmsprop", "date", size.lenet.batch)
    return found[0] if found else None


def _named(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Rows by name; none as long as some are missing."""
    by_key = {row.key: row for row in rows}
    return [by_key[name] for name in names] if all(name in by_key for name in names) else []
