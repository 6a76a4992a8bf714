"""Converged or diverged, by the rule of docs/mathematics.md#verdict."""

import math

import pytest

from gossip.loop.verdict import PATIENCE_STEPS, Verdict


def followed(losses) -> Verdict:
    verdict = Verdict(num_classes=10)
    verdict.follow(range(len(losses)), losses)
    return verdict


def test_a_falling_loss_converges():
    verdict = followed([2.3, 1.0, 0.5])
    verdict.end(3, 0.4)
    assert verdict.as_dict() == {
        "verdict": "converged",
        "verdict_reason": None,
        "diverged_at_step": None,
    }


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_diverges_at_its_step_for_good(bad):
    verdict = followed([2.3, 1.0, bad, 1.0])
    assert verdict.diverged
    assert verdict.hopeless
    assert verdict.step == 2


def test_three_times_the_first_loss_must_last():
    high, first = 7.0, 2.3
    assert not followed([first, *[high] * (PATIENCE_STEPS - 1), 1.0]).diverged
    verdict = followed([first, *[high] * PATIENCE_STEPS])
    assert verdict.step == PATIENCE_STEPS
    assert not verdict.hopeless


def test_patience_counts_across_calls():
    verdict = Verdict(10)
    verdict.follow([0], [1.0])
    for t in range(1, PATIENCE_STEPS + 1):
        assert not verdict.diverged
        verdict.follow([t], [4.0])
    assert verdict.diverged


@pytest.mark.parametrize(("loss", "diverged"), [(2.3006, True), (2.27, False), (2.33, False)])
def test_a_constant_predictor_has_diverged(loss, diverged):
    verdict = followed([2.4])
    verdict.end(1, loss)
    assert verdict.diverged is diverged


@pytest.mark.parametrize(("loss", "diverged"), [(48.0, True), (7.0, True), (6.8, False)])
def test_a_run_that_ends_over_three_times_the_first_loss_has_diverged(loss, diverged):
    verdict = followed([2.3, 2.0, 30.0])
    verdict.end(3, loss)
    assert verdict.diverged is diverged
    assert (
        not diverged or verdict.reason == f"the final loss {loss:g} is over 3 times the first value"
    )
