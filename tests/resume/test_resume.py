"""A run that is taken up again is, bit for bit, the one that was never interrupted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.config import Data, Model, Rate
from gossip.config.reliability import Reliability
from gossip.errors import UserError
from gossip.optim import OPTIMIZERS as ALL_OPTIMIZERS
from gossip.rates import DECAYS, LAYER_RATIOS, SCALINGS, WARMUPS
from tests.covering import covering
from tests.resume.walks import (
    LATE,
    OPTIMIZERS,
    RULES,
    STEPS,
    WALKS,
    config,
    late,
    same_bits,
    start_of,
    timeless,
    walk,
)

COMBINATIONS = covering(WALKS, RULES, OPTIMIZERS)


def assert_goes_on(chosen, folder, points):
    """Taken up after each of `points` steps, `chosen` ends as without an interruption."""
    whole, rows = walk(chosen, Stacked(4), folder, at=points)
    for point in points:
        start = start_of(folder, point, range(4))
        outcome, tail = walk(chosen, Stacked(4), start=start)
        assert same_bits(outcome.state.x, whole.state.x), point
        assert str(timeless(tail)) == str(timeless(rows)[len(rows) - len(tail) :]), point
        assert len(tail) == len([row for row in rows if row["step"] >= first_open(point)])
        assert outcome.bytes_sent_per_learner == whole.bytes_sent_per_learner
        assert outcome.verdict.as_dict() == whole.verdict.as_dict()


def first_open(point):
    """The first step that has no row yet when `point` steps are done: rows come every 5th step."""
    return 0 if point == 0 else 5 * ((point - 1) // 5) + 1


@pytest.mark.parametrize(("name", "rule", "optimizer"), COMBINATIONS)
def test_every_algorithm_and_rule_goes_on_bit_for_bit(name, rule, optimizer, tmp_path):
    number = COMBINATIONS.index((name, rule, optimizer))
    points = np.random.default_rng(number).choice(np.arange(1, STEPS), 2, replace=False).tolist()
    if rule == "adascale":  # its own time may end a run earlier
        points = [point for point in points if point < 4] or [2]
    assert_goes_on(config(name, rule, optimizer), tmp_path, sorted(points))


def test_at_any_of_twenty_steps(tmp_path):
    assert_goes_on(replace(config("dpsgd"), steps=21), tmp_path, list(range(1, 21)))


@pytest.mark.parametrize("name", LATE)
def test_at_every_step_of_a_round_with_an_average_under_way(name, tmp_path):
    assert_goes_on(late(name), tmp_path, list(range(1, STEPS)))


class Counting(Stacked):
    """Counts averages that have been started and not been waited for."""

    under_way = 0

    def start_mean(self, x):
        pending = super().start_mean(x)
        self.under_way += 1

        def wait():
            self.under_way -= 1
            return pending()

        return wait


@pytest.mark.parametrize("name", LATE)
def test_nothing_is_under_way_when_a_run_has_ended(name, tmp_path):
    comm = Counting(4)
    whole, _ = walk(replace(late(name), steps=8), comm, tmp_path)  # an average began in step 8
    assert comm.under_way == 0
    start = start_of(tmp_path, 8, range(4))
    again, _ = walk(late(name), Stacked(4), start=start)
    expected, _ = walk(late(name), Stacked(4))
    assert same_bits(again.state.x, expected.state.x)
    assert again.bytes_sent_per_learner == expected.bytes_sent_per_learner
    assert whole.bytes_sent_per_learner < expected.bytes_sent_per_learner


@pytest.mark.parametrize(
    ("optimizer", "name", "layer_ratio"),
    covering(ALL_OPTIMIZERS, ["dpsgd", "ssgd"], ["off", "fixed"]),
)
def test_every_optimizer_keeps_its_state(optimizer, name, layer_ratio, tmp_path):
    rate = Rate(lr=0.01, optimizer=optimizer, layer_ratio=layer_ratio)
    assert_goes_on(config(name, rate=rate), tmp_path, [3, 8])


def test_the_tables_of_rates_are_all_walked():
    def used(part):
        return {rule[part] for rule in RULES.values() if part in rule}

    assert used("scaling") | {"none"} == set(SCALINGS)
    assert used("warmup") | {"none"} == set(WARMUPS)
    assert used("layer_ratio") | {"off"} == set(LAYER_RATIOS)
    assert used("decay") <= set(DECAYS)


@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_running_statistics_go_on(name, tmp_path):
    chosen = config(
        name,
        model=Model(model="cnn-bn", model_options=("width=2",)),
        data=Data(dataset="digits", batch_size=4),
        steps=7,
    )
    assert_goes_on(chosen, tmp_path, [3])


@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_steps_that_were_left_out_are_not_forgotten(name, tmp_path):
    """Losses overflow at this rate; half of what is skipped lies before the checkpoint."""
    chosen = config(
        name,
        rate=Rate(lr=1e30),
        reliability=Reliability(on_nonfinite="skip"),
        steps=9,
    )
    whole, _ = walk(chosen, Stacked(4), tmp_path, at=[4])
    outcome, _ = walk(chosen, Stacked(4), start=start_of(tmp_path, 4, range(4)))
    assert whole.skips > 0
    assert (outcome.skips, outcome.first_skip) == (whole.skips, whole.first_skip)
    assert same_bits(outcome.state.x, whole.state.x)


def test_more_steps_go_on_after_the_end(tmp_path):
    chosen = config("dpsgd")
    walk(chosen, Stacked(4), tmp_path)
    longer = replace(chosen, steps=STEPS + 6)
    outcome, _ = walk(longer, Stacked(4), start=start_of(tmp_path, STEPS, range(4)))
    expected, _ = walk(longer, Stacked(4))
    assert outcome.state.step == STEPS + 6
    assert same_bits(outcome.state.x, expected.state.x)


def test_weights_that_are_lost_are_not_kept(tmp_path):
    walk(config("dpsgd", rate=Rate(lr=1e30)), Stacked(4), tmp_path, at=range(STEPS))
    start = start_of(tmp_path, 1, range(4))
    assert torch.isfinite(start.rows["x"]).all()
    with pytest.raises(ValueError, match="not enough values"):
        start_of(tmp_path, STEPS - 1, range(4))


@pytest.mark.parametrize(
    "other",
    [
        {"model": Model(widths=(9,))},
        {"model": Model(widths=(8,), dtype="float64")},
        {"rate": Rate(lr=0.05, scaling="lena")},
    ],
    ids=["model", "dtype", "rule"],
)
def test_a_checkpoint_of_another_run_is_refused(other, tmp_path):
    walk(config("dpsgd"), Stacked(4), tmp_path, at=[3])
    start = start_of(tmp_path, 3, range(4))
    with pytest.raises(UserError, match="of another run"):
        walk(config("dpsgd", **other), Stacked(4), start=start)
