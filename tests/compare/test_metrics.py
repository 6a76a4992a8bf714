"""Errors and the way to a target, on traces whose answers are plain to see."""

import math

import pytest

from gossip.compare import metrics
from gossip.errors import UserError
from tests.compare.runs import run

FALLING = run([0.9, 0.4, 0.1, 0.2], [0.9, 0.5, 0.3, 0.25])


def test_held_out_samples_judge_where_there_are_some() -> None:
    assert metrics.error_column(FALLING) == "validation_error"
    assert metrics.error_column(run(None, [0.9, 0.1])) == "test_error"


@pytest.mark.parametrize(
    ("epoch", "error"), [(0, 0.9), (0.99, 0.9), (1, 0.4), (1 - 1e-12, 0.4), (2.5, 0.1), (99, 0.2)]
)
def test_the_error_at_an_epoch_is_the_last_one_not_after_it(epoch: float, error: float) -> None:
    assert metrics.error_at(FALLING, epoch) == error


def test_before_the_first_evaluation_there_is_no_error() -> None:
    assert math.isnan(metrics.error_at(run([0.5], epochs=[1.0]), 0.5))
    assert math.isnan(metrics.evaluated_at(run([0.5], epochs=[1.0]), 0.5))


def test_best_and_last() -> None:
    assert metrics.best_error(FALLING) == 0.1
    assert metrics.last_error(FALLING) == 0.2
    assert metrics.last_error(FALLING, metrics.TEST) == 0.25
    assert metrics.early_stopped_error(FALLING) == 0.3


def test_a_target_is_reached_at_the_first_evaluation_as_good() -> None:
    assert metrics.reached(FALLING, 0.4) == metrics.Reached(1.0, 10, 2.0)
    assert metrics.reached(FALLING, 0.15) == metrics.Reached(2.0, 20, 4.0)
    assert metrics.reached(FALLING, 0.05) is None
    assert metrics.reached(FALLING, math.nan) is None


def test_a_run_without_any_evaluation_has_no_numbers() -> None:
    empty = run([math.nan])
    assert math.isnan(metrics.best_error(empty))
    assert math.isnan(metrics.early_stopped_error(empty))
    assert metrics.reached(empty, 0.5) is None


def test_lost_is_what_diverged_or_forgot_half() -> None:
    assert metrics.diverged(run([0.9, 0.1], verdict="diverged"))
    assert metrics.is_lost(run([0.9, 0.1], verdict="diverged"))
    assert metrics.is_lost(run([0.9, 0.1, 0.6]))
    assert not metrics.is_lost(FALLING)
    assert not metrics.is_lost(run([1.3, 1.2])), "an R^2 below 0 that stays at its best"
    assert metrics.is_lost(run([1.2, 1.4]))


def test_the_target_is_the_mean_best_of_the_single_workers_and_a_slack() -> None:
    other = run([0.9, 0.3])
    assert metrics.target_error([FALLING, other]) == pytest.approx(0.2)
    assert metrics.target_error([FALLING, other], slack=1.5) == pytest.approx(0.215)
    with pytest.raises(UserError, match="no target"):
        metrics.target_error([])
