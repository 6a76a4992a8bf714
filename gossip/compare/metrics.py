"""What a run achieved, and how soon: the numbers of a comparison.

Pure functions of a `gossip.report.Run`. An evaluation is a row of its trace with an error; the
error is that on held-out training samples where the run has some, else that on the test set. Of a
diverged run they say what its trace says: ask `diverged` besides. What a comparison prints of them:
docs/mathematics.md#comparing-methods.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gossip.errors import UserError
from gossip.loop.outcome import OF_NUMBERS
from gossip.report import Run

VALIDATION, TEST = "validation_error", "test_error"

LOST = 0.5
"""A run that ends with less than this share of its best accuracy, or R^2, is lost."""
SCORES = {"error": "accuracy", OF_NUMBERS: "R^2"}
"""What a run's error is called -> what is left of 1: of labels that are numbers R^2."""

_ROUNDING = 1e-9
"""An epoch is a quotient: 30 steps of 1/30 may come out a little over 1."""


class Reached(NamedTuple):
    """Where an error was first as low as wanted."""

    epochs: float
    """Samples drawn until then, divided by N."""
    updates: int
    """Steps done until then."""
    seconds: float
    """Training time until then, evaluation and monitoring not counted; NaN if not recorded."""


class Evaluations(NamedTuple):
    """The rows of a trace that have an error, in the order of their steps: all [rows]."""

    epochs: np.ndarray
    steps: np.ndarray
    seconds: np.ndarray
    errors: np.ndarray


def score(runs: Iterable[Run]) -> str:
    """What 1 - error is called in a comparison, whose runs all judge the same labels."""
    return " or ".join(dict.fromkeys(SCORES.get(run.error, f"1 - ({run.error})") for run in runs))


def error_column(run: Run) -> str:
    """The column that judges the run: validation_error if it has one, else test_error."""
    return VALIDATION if np.isfinite(run.column(VALIDATION)).any() else TEST


def evaluations(run: Run, column: str | None = None) -> Evaluations:
    """Where `column` (default: `error_column`) was measured, and what was found there."""
    errors = run.column(column or error_column(run))
    there = np.isfinite(errors)
    epochs, steps, seconds = (run.column(name)[there] for name in ("epoch", "step", "seconds"))
    return Evaluations(epochs, steps, seconds, errors[there])


def evaluated_at(run: Run, epoch: float) -> float:
    """The epoch of the last evaluation not after `epoch`; NaN if there is none."""
    return _last_until(run, epoch, None)[0]


def error_at(run: Run, epoch: float, column: str | None = None) -> float:
    """The error at the last evaluation not after `epoch`; NaN if there is none.

    A run that ended before (it diverged) has the error it ended with.
    """
    return _last_until(run, epoch, column)[1]


def best_error(run: Run) -> float:
    """The lowest error of all evaluations; NaN if there is none."""
    return float(min(evaluations(run).errors, default=math.nan))


def last_error(run: Run, column: str | None = None) -> float:
    """The error of the last evaluation, that of the final model; NaN if there is none."""
    return error_at(run, math.inf, column)


def early_stopped_error(run: Run) -> float:
    """Test error where `error_column` was lowest (the first, of several); NaN if there is none.

    With a validation set, this is what early stopping would have got: the test set chose nothing.
    """
    judged, test = run.column(error_column(run)), run.column(TEST)
    return float(test[np.nanargmin(judged)]) if np.isfinite(judged).any() else math.nan


def reached(run: Run, target_error: float) -> Reached | None:
    """The first evaluation whose error is at most `target_error`; None: never, "N/A"."""
    found = evaluations(run)
    hits = np.flatnonzero(found.errors <= target_error)
    if not len(hits):
        return None
    i = hits[0]
    return Reached(float(found.epochs[i]), int(found.steps[i]), float(found.seconds[i]))


def diverged(run: Run) -> bool:
    """Whether the run's own verdict says so; see docs/mathematics.md#verdict."""
    return run.verdict == "diverged"


def is_lost(run: Run) -> bool:
    """Whether it diverged, or ended with less than half of its best accuracy, or R^2.

    Of a best R^2 below 0 it is the same fall: by more than half of its size.
    """
    best = 1 - best_error(run)
    return diverged(run) or 1 - last_error(run) < best - (1 - LOST) * abs(best)


def target_error(runs: Sequence[Run], slack: float = 0.0) -> float:
    """The error to reach: mean best error of single-worker runs over their seeds, plus a slack.

    The target is our own run with one learner, no scaling and no warm-up on the same split and
    as many samples: published targets came from validation sets that overlap the training set
    (docs/mathematics.md#targets).

    Args:
        runs: the single-worker runs, one per seed.
        slack: by how many percentage points the target accuracy, or R^2, is below the baseline's.

    Raises:
        UserError: no run, or one was never evaluated.
    """
    errors = [best_error(run) for run in runs]
    if not errors or not all(map(math.isfinite, errors)):
        raise UserError("no target: there is no evaluated single-worker run; give --target")
    return float(np.mean(errors)) + slack / 100


def _last_until(run: Run, epoch: float, column: str | None) -> tuple[float, float]:
    """Epoch and error of the last evaluation not after `epoch`."""
    found = evaluations(run, column)
    before = np.flatnonzero(found.epochs <= epoch + _ROUNDING)
    if not len(before):
        return math.nan, math.nan
    return float(found.epochs[before[-1]]), float(found.errors[before[-1]])
