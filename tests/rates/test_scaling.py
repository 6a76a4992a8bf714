"""Constant scalings, and how long a run is."""

from dataclasses import replace
from math import ceil

import pytest

from gossip.config import Averaging, Config, Data, Rate
from gossip.rates import SCALINGS
from gossip.study import rate_rule
from tests.rates.cases import ONE, drawn, made, rates, walk


@pytest.mark.parametrize(("n", "batch", "baseline"), [(1, 10, None), (4, 10, None), (4, 10, 5)])
def test_constant_scalings_are_powers_of_the_total_batch_over_the_baselines(n, batch, baseline):
    k = n * batch / (baseline or batch)
    for scaling, factor in (("none", 1), ("linear", k), ("sqrt", k**0.5)):
        rule = made(n, 3, batch=batch, scaling=scaling, baseline_batch=baseline)
        assert rates(rule) == [0.8 * factor] * 3


@pytest.mark.parametrize("scaling", SCALINGS)
def test_only_those_that_look_at_single_gradients_ask_for_them(scaling):
    measured = scaling in ("adascale", "lena")
    assert made(scaling=scaling).needs_norms == measured
    assert made(scaling=scaling, warmup="state-aware").needs_norms
    assert made(scaling=scaling, layer_ratio="fixed").needs_norms == measured


def run_length(epochs: float, samples: int, n: int, batch: int) -> tuple[float, int]:
    config = Config(epochs=epochs, gossip=Averaging(learners=n), data=Data(batch_size=batch))
    budget = rate_rule.budget(config, samples)
    rule = rate_rule.rule(config.rate, budget, made().layers)
    return budget.steps, len(rates(rule))


@pytest.mark.parametrize(("n", "updates"), [(8, 4888), (16, 2444), (32, 1222), (64, 611)])
def test_linear_scaling_takes_a_share_of_the_single_workers_iterations(n, updates):
    steps, taken = run_length(100, 391 * 128, n, 128)
    assert steps == 39_100 / n
    assert taken == updates == ceil(39_100 / n)


def test_lenas_table_1_counts_iterations_across_epochs():
    steps, taken = run_length(107, 45_000, 64, 128)
    assert steps == pytest.approx(587.769, abs=1e-3)
    assert taken == 588


def test_epochs_that_are_whole_steps_are_not_one_more():
    """0.1 * 3 / 0.001 style products: 300.00000000000006 steps are 300."""
    for samples, n, batch, steps in ((3000, 1, 10, 90), (1437, 3, 479, 7), (1100, 11, 10, 3)):
        epochs = steps * n * batch / samples
        assert run_length(epochs, samples, n, batch)[1] == steps


def test_units_of_a_budget():
    config = Config(steps=60, gossip=Averaging(learners=5), data=Data(batch_size=20))
    budget = rate_rule.budget(config, 1000)
    assert budget.steps_per_epoch == 10
    assert budget.single_worker_steps == 300
    assert budget.scale == 5
    assert replace(budget, baseline_batch=25).scale == 4


def test_the_last_step_of_a_run_that_is_no_whole_number_of_steps_is_taken():
    seen = walk(made(4, 2.5), drawn(4, 10))
    assert [p >= 1 for _, _, p in seen] == [False, False, True]


@pytest.mark.parametrize(
    ("warmup", "reference"),
    [("none", "scaled"), ("fixed", "scaled"), ("fixed", "paper-example"), ("legw", "scaled")],
)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_baseline_is_said_to_have_no_effect_where_rates_do_not_depend_on_it(
    scaling, warmup, reference
):
    options = {
        "scaling": scaling,
        "warmup": warmup,
        "warmup_epochs": None if warmup == "none" else 0.5,
        "decay": "roller-coaster",
        "decay_options": (f"reference={reference}",),
    }
    found = {batch: rates(made(layers=ONE, baseline_batch=batch, **options)) for batch in (10, 20)}
    said = rate_rule.idle(Rate(lr=0.8, baseline_batch=20, **options))
    expected = [f"baseline-batch has no effect with --scaling {scaling}"]
    assert said == expected * (found[10] == found[20])
