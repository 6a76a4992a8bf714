"""Two tables: runs, of which a loss knows only their steps, and what steps take on each network.

What is computed does not depend on how fast messages are: all ways wait for what they average, or
average it a number of steps later that is fixed. So a run's losses are recorded once, and its time
on a network is that of its steps there.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.common import tables
from experiments.methods.network.size import MNIST, Network, Size
from experiments.methods.network.ways import BASELINE, compared
from experiments.methods.plan import least

RUNS, STEPS = "methods_network_runs.csv", "methods_network.csv"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A whole run, on the unshaped network. Losses are of the mean model."""

    task: str = MNIST.name
    way: str
    trial: int
    lr: float
    seed: int
    validation_loss: float = math.inf
    """At the end; infinite: lost."""
    test_loss: float = math.nan
    test_error: float = math.nan
    reached: float = math.nan
    """Steps until the test loss was first at most the target; NaN: never, or of a trial."""
    seconds: float = math.nan
    versions: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """What it is of."""
        return self.way, self.trial, self.seed


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What a way's steps take on a network, and what a learner's interface sends in them."""

    task: str = MNIST.name
    mbits: float
    delay_ms: float
    """One way."""
    way: str
    turns: int
    timed: int
    """Steps of a turn."""
    first: float
    """Seconds of the first round, with connections that are cold."""
    step: float
    """Seconds of one behind it, in the fastest turn: others of this machine only make it longer."""
    slowest: float
    """... and in the slowest."""
    first_bytes: float
    step_bytes: float
    """By the interface's counter, headers included; the mean over learners."""
    delayed_by: str = "-"
    load: float = math.nan

    @property
    def network(self) -> Network:
        """Where they are timed."""
        return Network(self.mbits, self.delay_ms)


TABLES: dict[str, Any] = {RUNS: Run, STEPS: Steps}
"""Files, and what a row is of."""


@dataclass(frozen=True)
class Measured:
    """The rows of one task in the committed tables, and its size."""

    size: Size
    runs: Sequence[Run]
    steps: Sequence[Steps]

    def chosen(self, way: str) -> int | None:
        """The trial with the least validation loss; None as long as one is missing.

        Of several tuning seeds the worst loss counts, NaN being the worst of all.
        """
        method = compared(self.size).get(way)
        count = len(method.trials(self.size.task)) if method else 1
        return least([self._worst(way, trial) for trial in range(count)])

    def _worst(self, way: str, trial: int) -> float | None:
        losses = [run.validation_loss for run in self._tried(way, trial)]
        is_whole = len(losses) == len(self.size.tuning_seeds)
        return max(math.inf if math.isnan(each) else each for each in losses) if is_whole else None

    def _tried(self, way: str, trial: int | None) -> list[Run]:
        wanted = {(way, trial, seed) for seed in self.size.tuning_seeds}
        return [run for run in self.runs if run.key in wanted]

    @property
    def target(self) -> float:
        """The test loss that all are to come to; NaN as long as it is not known."""
        found = [run.test_loss for run in self._tried(BASELINE, self.chosen(BASELINE))]
        return self.size.task.slack * fmean(found) if found else math.nan

    def judged(self, way: str) -> list[Run]:
        """Its runs at the chosen trial, by seed; empty until all are there."""
        best = self.chosen(way)
        found = [
            run for run in self.runs if run.key in {(way, best, s) for s in self.size.task.seeds}
        ]
        is_whole = len(found) == len(self.size.task.seeds)
        return sorted(found, key=lambda run: run.seed) if is_whole else []

    def at(self, network: Network, way: str) -> Steps | None:
        """What its steps take there."""
        return next(
            (each for each in self.steps if (each.network, each.way) == (network, way)), None
        )

    def seconds(self, network: Network, way: str) -> list[float] | None:
        """To the target, of each seed; NaN: never. None while something is missing."""
        steps, runs = self.at(network, way), self.judged(way)
        if steps is None or not runs:
            return None
        return [self._until(run.reached, steps.first, steps.step) for run in runs]

    def megabytes(self, way: str) -> list[float] | None:
        """That a learner sends to the target, of each seed, on the first network that is there."""
        found = [each for n in self.size.networks if (each := self.at(n, way)) is not None]
        runs = self.judged(way)
        if not found or not runs:
            return None
        first, step = found[0].first_bytes / 1e6, found[0].step_bytes / 1e6
        return [self._until(run.reached, first, step) for run in runs]

    def _until(self, steps: float, first: float, each: float) -> float:
        """The first round and the steps behind it; of a part of the first round, its share."""
        warm = self.size.task.every
        return first * min(steps, warm) / warm + each * max(steps - warm, 0.0)


def mean(values: Sequence[float] | None) -> float:
    """NaN where one is, or there are none."""
    return fmean(values) if values else math.nan


def read(results: Path, size: Size) -> Measured:
    """What `write` wrote of a task; nothing if there are no files."""
    runs, steps = (
        [row for row in tables.typed(results / name, kind) if row.task == size.name]
        for name, kind in TABLES.items()
    )
    return Measured(size, runs, steps)


def write(made: Measured, results: Path) -> None:
    """Write the rows of a task into the tables, whose rows of other tasks stay."""
    for (name, kind), own in zip(TABLES.items(), (made.runs, made.steps), strict=True):
        others = [row for row in tables.typed(results / name, kind) if row.task != made.size.name]
        if rows := sorted([*others, *own], key=lambda row: row.task):
            tables.write([asdict(row) for row in rows], results / name)
