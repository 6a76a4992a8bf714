"""Equal samples, equal trials, and the choice that validation makes."""

from dataclasses import replace
from typing import Any

import pytest

from gossip.compare.comparison import Comparison
from gossip.compare.lines import lines
from gossip.compare.metrics import last_error
from gossip.compare.plan import Cell, choose_values, entries, plan
from gossip.compare.rows import rows, target
from gossip.config import Config, Data
from gossip.config.presets import PRESETS
from gossip.errors import UserError
from gossip.report import Run
from gossip.study.rate_rule import budget
from tests.compare.runs import run

SAMPLES = 1_000
BASE = Config(epochs=3.0, data=Data(dataset="digits", batch_size=10, validation=50))
TUNED = ("lr=0.1,0.2,0.4",)


def comparison(**changes: Any) -> Comparison:
    settings: dict[str, Any] = {"methods": ("lsw", "dpsgd"), "learners": (2, 7), "seeds": (0, 1)}
    return Comparison(**(settings | {"samples": SAMPLES, "base": BASE} | changes))


def test_every_method_and_every_n_see_equally_many_samples() -> None:
    every = comparison(methods=("single", "dpsgd", "ssgd", "ssgd-star", *PRESETS))
    configs = plan(every).values()
    assert len(configs) == 2 * (1 + 2 * (3 + len(PRESETS)))
    for config in configs:
        length = budget(config, SAMPLES)
        assert length.steps * length.learners * length.batch == pytest.approx(3 * SAMPLES)
        assert length.batch == 10
        assert "progress=tau" not in config.rate.scaling_options


def test_the_model_is_judged_once_per_epoch_unless_it_is_said_otherwise() -> None:
    every = {c.gossip.learners: c.monitoring.monitor_every for c in plan(comparison()).values()}
    assert every == {1: 100, 2: 50, 7: 14}
    said = replace(BASE, monitoring=replace(BASE.monitoring, monitor_every=5))
    told = plan(comparison(base=said, given=("monitor_every",)))
    assert {config.monitoring.monitor_every for config in told.values()} == {5}


def test_the_single_worker_runs_only_where_it_sets_the_target() -> None:
    assert "single-n1-s0" in plan(comparison())
    assert "single-n1-s0" not in plan(comparison(target=0.1))
    assert len(plan(comparison(methods=("single",)))) == 2


def test_every_method_and_every_n_get_the_same_trials() -> None:
    tuned = comparison(tune=(*TUNED, "momentum=0.5,0.9"), tune_seeds=(5, 6))
    trials: dict[Cell, set] = {}
    for entry in entries(tuned):
        trials.setdefault(entry.cell, set()).add((entry.values, entry.seed))
    assert len(trials) == 5
    first, *others = trials.values()
    assert len(first) == 12
    assert all(other == first for other in others)


def test_what_is_tuned_has_to_be_an_option_of_the_methods_themselves() -> None:
    tuned = ("algorithm_options=gamma=0.1,gamma=0.3",)
    made = plan(comparison(methods=("choco-atc",), target=0.1, tune=tuned))
    given = {config.gossip.algorithm_options for config in made.values()}
    assert given == {("gamma=0.1",), ("gamma=0.3",)}
    with pytest.raises(UserError, match="algorithm ssgd has no option 'gamma'"):
        comparison(methods=("choco-atc", "lsw"), target=0.1, tune=tuned)


def trials_of(tuned: Comparison, errors: dict[str, float], lost: str = "") -> dict[str, Run]:
    """A finished run for each entry, its error by the tuned learning rate."""
    found = {}
    for entry in entries(tuned):
        ((_, lr),) = entry.values
        verdict = "diverged" if lr == lost else "converged"
        # The test error says the opposite: it must not choose.
        found[entry.key] = run([0.9, errors[lr]], [0.9, 1 - errors[lr]], verdict=verdict)
    return found


def test_the_chosen_value_has_the_lowest_final_validation_error() -> None:
    tuned = comparison(tune=TUNED)
    runs = trials_of(tuned, {"0.1": 0.3, "0.2": 0.1, "0.4": 0.2})
    chosen = choose_values(tuned, runs)
    assert set(chosen.values()) == {(("lr", "0.2"),)}
    best = min(runs, key=lambda key: last_error(runs[key]))
    assert "lr=0.2" in best
    finals = [e for e in entries(tuned, chosen) if e.values == (("lr", "0.2"),)]
    assert sorted({e.seed for e in finals}) == [0, 1]
    assert all(e.config.rate.lr == 0.2 for e in finals)


def test_a_diverged_trial_loses_whatever_its_error() -> None:
    tuned = comparison(tune=TUNED)
    runs = trials_of(tuned, {"0.1": 0.3, "0.2": 0.1, "0.4": 0.2}, lost="0.2")
    assert set(choose_values(tuned, runs).values()) == {(("lr", "0.4"),)}


def test_where_all_trials_diverged_the_lowest_error_still_wins() -> None:
    tuned = comparison(tune=TUNED)
    runs = {
        key: replace(found, summary={**found.summary, "verdict": "diverged"})
        for key, found in trials_of(tuned, {"0.1": 0.9, "0.2": 0.85, "0.4": 0.9}).items()
    }
    assert set(choose_values(tuned, runs).values()) == {(("lr", "0.2"),)}


def test_a_cell_without_all_its_trials_is_not_chosen_for() -> None:
    tuned = comparison(tune=TUNED)
    runs = trials_of(tuned, {"0.1": 0.3, "0.2": 0.1, "0.4": 0.2})
    del runs["lsw-n7-lr=0.1-s0"]
    assert Cell("lsw", 7) not in choose_values(tuned, runs)
    assert Cell("lsw", 2) in choose_values(tuned, runs)


def test_rows_count_trials_and_keep_what_was_chosen() -> None:
    tuned = comparison(tune=TUNED)
    runs = trials_of(tuned, {"0.1": 0.3, "0.2": 0.1, "0.4": 0.2})
    chosen = choose_values(tuned, runs)
    for entry in entries(tuned, chosen):
        runs.setdefault(entry.key, run([0.9, 0.2], [0.9, 0.3]))
    assert target(tuned, chosen, runs) == pytest.approx(0.15)
    made = lines(rows(tuned, chosen, runs))
    assert [line.cell for line in made] == [
        ("single", 1), ("lsw", 2), ("dpsgd", 2), ("lsw", 7), ("dpsgd", 7),
    ]  # fmt: skip
    for line in made:
        assert line.trials == 3
        assert line.tuned == "lr=0.2"
        assert line.over_seeds("error").mean == pytest.approx(0.15)
        assert line.over_seeds("epochs_to_target")[::2] == (1.0, 1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"methods": ()}, "no methods given"),
        ({"methods": ("lsw", "lsw")}, "methods: lsw is given twice"),
        ({"seeds": (0, 1, 0)}, "seeds: 0 is given twice"),
        ({"learners": (2, 101)}, "n B = 1010 exceeds the 1000 training samples"),
        ({"learners": (0,)}, "at least 1"),
        ({"base": replace(BASE, epochs=None)}, "give --epochs"),
        ({"at_epoch": 4.0}, "at_epoch=4.0"),
        ({"target": 8.0}, "target=8.0: it is an error"),
        ({"tune": ("lrr=1,2",)}, "'lrr': did you mean lr"),
        ({"tune": ("lr",)}, "write it as KEY=V1,V2"),
        ({"tune": ("lr=1,1",)}, "given twice"),
        ({"tune": ("lr=1", "lr=2")}, "--tune lr is given twice"),
        ({"tune": ("lr=1,fast",)}, "lr=fast: Expected"),
        ({"tune": ("seed=1,2",)}, "must be the same for all methods"),
        ({"tune": TUNED, "methods": ("lsw:lr=1",)}, "sets lr, which --tune tries"),
        (
            {"tune": TUNED, "base": replace(BASE, data=Data(dataset="digits", batch_size=10))},
            "--tune needs --validation > 0",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        comparison(**changes)
