"""The runs of a comparison: equal samples and equal tuning trials for every method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from gossip.compare import methods
from gossip.compare.comparison import Comparison, TunedValues
from gossip.compare.methods import SINGLE, file_name
from gossip.compare.metrics import VALIDATION, diverged, last_error
from gossip.config import Config
from gossip.report import Run


class Cell(NamedTuple):
    """A method at one number of learners: a line of the table."""

    method: str
    learners: int


@dataclass(frozen=True)
class Entry:
    """One run of a comparison."""

    cell: Cell
    seed: int
    values: TunedValues
    config: Config

    @property
    def key(self) -> str:
        """Name of its folder; a trial and a final run of the same config are one run."""
        tuned = "".join(f"-{key}={value}" for key, value in self.values)
        cell = self.cell
        return file_name(f"{cell.method}-n{cell.learners}{tuned}-s{self.seed}")


def cells(comparison: Comparison) -> list[Cell]:
    """All runs, by n and then in the order of the methods; the single worker has n = 1."""
    sides = comparison.sides()
    singles = [Cell(side.text, 1) for side in sides if side.name == SINGLE]
    return singles + [
        Cell(side.text, n)
        for n in sorted(comparison.learners)
        for side in sides
        if side.name != SINGLE
    ]


def entries(
    comparison: Comparison, chosen: Mapping[Cell, TunedValues] | None = None
) -> list[Entry]:
    """The trials, and the final runs of the cells whose values are chosen.

    Args:
        comparison: what is compared.
        chosen: values by cell, of `choose_values`; None: the trials alone, or without --tune
            all runs.

    Raises:
        UserError: a config that cannot be run.
    """
    grid = comparison.grid()
    if chosen is None and not comparison.tune:
        chosen = dict.fromkeys(cells(comparison), grid[0])
    made: dict[str, Entry] = {}
    for cell in cells(comparison):
        wanted = [(v, s) for v in grid for s in trial_seeds(comparison)]
        if cell in (chosen or {}):
            wanted += [((chosen or {})[cell], seed) for seed in comparison.seeds]
        for values, seed in wanted:
            entry = Entry(cell, seed, values, _config(comparison, cell, seed, values))
            made.setdefault(entry.key, entry)
    return list(made.values())


def plan(
    comparison: Comparison, chosen: Mapping[Cell, TunedValues] | None = None
) -> dict[str, Config]:
    """The runs of `entries`, as `gossip.runs.sweep.run_all` takes them."""
    return {entry.key: entry.config for entry in entries(comparison, chosen)}


def trial_seeds(comparison: Comparison) -> tuple[int, ...]:
    """Seeds that tuning tries; none without tuning."""
    return (comparison.tune_seeds or comparison.seeds[:1]) if comparison.tune else ()


def choose_values(comparison: Comparison, runs: Mapping[str, Run]) -> dict[Cell, TunedValues]:
    """The values of each cell all of whose trials are there: lowest final validation error.

    Fewer diverged trials come first, then the mean error of the others over the tuning seeds, then
    that of all: a model that is only slow counts as diverged too.

    Args:
        comparison: what is compared.
        runs: finished runs by the key of their entry.
    """
    if not comparison.tune:
        return dict.fromkeys(cells(comparison), ())
    trials: dict[Cell, dict[TunedValues, list[Run | None]]] = {}
    for entry in entries(comparison):
        points = trials.setdefault(entry.cell, {})
        points.setdefault(entry.values, []).append(runs.get(entry.key))
    chosen = {}
    for cell, points in trials.items():
        scores = {values: _score(found) for values, found in points.items()}
        if all(scores.values()):
            chosen[cell] = min(scores, key=lambda values: scores[values] or (0, 0.0, 0.0))
    return chosen


def _score(runs: list[Run | None]) -> tuple[int, float, float] | None:
    """Diverged trials, mean final validation error of the others and of all; None: one missing."""
    there = [run for run in runs if run is not None]
    if len(there) < len(runs):
        return None
    kept = [run for run in there if not diverged(run)]
    return len(there) - len(kept), _mean_error(kept), _mean_error(there)


def _mean_error(runs: list[Run]) -> float:
    """Mean final validation error; infinite without runs, or with one that has none."""
    errors = [last_error(run, VALIDATION) for run in runs]
    mean = sum(errors) / len(errors) if errors else math.inf
    return math.inf if math.isnan(mean) else mean


def _config(comparison: Comparison, cell: Cell, seed: int, values: TunedValues) -> Config:
    base, given = comparison.base, comparison.given
    side = next(side for side in comparison.sides() if side.text == cell.method)
    made = methods.config(side, base, cell.learners, seed, dict(values), given=given)
    if "monitor_every" in given or "monitor_every" in side.options:
        return made
    # Rounded down: the last evaluation not after an epoch is then less than an epoch before it.
    per_epoch = comparison.samples / (cell.learners * base.data.batch_size)
    every = max(1, math.floor(per_epoch + 1e-9))
    return replace(made, monitoring=replace(made.monitoring, monitor_every=every))
