"""The study of methods: its plan, its fronts and verdicts, and all of its code on a smoke test."""

import math
from collections import Counter
from pathlib import Path

import pytest

from experiments.common.scale import smoke
from experiments.methods import claims, command, page
from experiments.methods.groups import Measured, front
from experiments.methods.methods import METHODS, OURS
from experiments.methods.plan import chosen, count, key, runs
from experiments.methods.rows import TABLE, Row
from experiments.methods.size import ALIKE, DIFFERENT, FULL, PARTITIONS, SMOKE
from tests.experiments.keeping import assert_table_is_enough

LATE, NEVER = 2.0, math.nan


def row(name: str, seed: int, *, trial: int = 0, cell: str = ALIKE, **more: float) -> Row:
    return Row(
        key=key(cell, name, trial, seed), cell=cell, method=name, trial=trial, lr=0.1, options="",
        seed=seed, steps=1, verdict="converged", lost=False, **more,
    )  # fmt: skip


def measured(**errors: list[float]) -> Measured:
    """Judged runs with these test errors in points, by seed, and trials of which the first wins."""
    made = []
    for name, values in errors.items():
        made += [
            row(name, FULL.tuning_seed, trial=i, validation_loss=float(i))
            for i in range(len(METHODS[name].trials(FULL)))
        ]
        made += [row(name, s, test_error=e / 100, megabytes=1.0) for s, e in enumerate(values)]
    return Measured(FULL, made)


def test_all_methods_have_equally_many_trials_and_none_of_them_is_judged() -> None:
    tried = {name: method.trials(FULL) for name, method in METHODS.items()}
    assert {len(set(each)) for each in tried.values()} == {len(FULL.rates)}
    made = runs(FULL, lambda name: 0.0)
    assert len(made) == count(FULL)
    seeds = Counter(config.seed for config in made.values())
    assert seeds[FULL.tuning_seed] == len(PARTITIONS) * len(METHODS) * len(FULL.rates)
    assert FULL.tuning_seed not in FULL.seeds


def test_methods_differ_in_nothing_but_how_they_average_and_step() -> None:
    made = runs(FULL, lambda name: 0.0)
    for cell, partition in PARTITIONS.items():
        of = [config for name, config in made.items() if name.startswith(f"{cell}-")]
        assert len({(c.data, c.model, c.steps, c.monitoring, c.gossip.learners) for c in of}) == 1
        assert of[0].data.partition == partition
        assert {c.rate.optimizer for c in of} == {"sgd"}


def test_the_trial_with_the_least_validation_loss_is_chosen_once_all_are_there() -> None:
    found: dict[str, float | None] = {
        key(DIFFERENT, "d2", i, FULL.tuning_seed): loss
        for i, loss in enumerate([math.inf, 0.5, 0.4, math.nan])
    }
    assert chosen(DIFFERENT, "d2", FULL, found.get) == 2
    found.popitem()
    assert chosen(DIFFERENT, "d2", FULL, found.get) is None
    assert not [name for name in runs(FULL, found.get) if "seed0" in name]


def test_a_front_is_of_those_that_nothing_beats_in_both() -> None:
    points = {"a": (1.0, 3.0), "b": (2.0, 2.0), "c": (3.0, 2.5), "d": (3.0, 1.0), "e": (4.0, 1.0)}
    groups = {
        name: {0: row(name, 0, megabytes=cost, test_loss=loss)}
        for name, (cost, loss) in points.items()
    }
    assert front(groups, "megabytes") == ["a", "b", "d"]


@pytest.mark.parametrize(
    ("ours", "better", "no_worse"),
    [([5, 5.1, 4.9, 5, 5], "yes", "yes"), ([9, 9.1, 9, 9, 9], "open", "yes"),
     ([12, 12.1, 12, 12, 12], "no", "no")],
)  # fmt: skip
def test_verdicts_are_on_differences_of_one_seed(
    ours: list[float], better: str, no_worse: str
) -> None:
    made = measured(d2=ours, dpsgd=[9, 9, 9, 9, 9.1])
    for judge, word in ((claims.better, better), (claims.no_worse, no_worse)):
        verdict = judge(ALIKE, "d2", "dpsgd")(made)
        assert verdict is not None
        assert verdict[0] == word
    verdict = claims.no_worse(ALIKE, "d2", "dpsgd", 0.5)(made)
    assert verdict is not None
    assert verdict[0] == "no"  # too many bytes
    assert claims.better(ALIKE, "d2", "dpsgd")(Measured(FULL, made.rows[:-1])) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [(1.0, LATE, "yes"), (LATE, 1.0, "no"), (NEVER, LATE, "no"), (1.0, NEVER, "yes"),
     (NEVER, NEVER, "open")],
)  # fmt: skip
def test_who_never_comes_to_the_target_comes_last(ours: float, theirs: float, word: str) -> None:
    made = measured(dpsgd=[], ssgd=[])
    of = {"dpsgd": ours, "ssgd": theirs}
    more = [row(name, s, to_lan=value + s / 100) for name, value in of.items() for s in FULL.seeds]
    verdict = claims.sooner(ALIKE, "10GbE", "dpsgd", "ssgd")(Measured(FULL, [*made.rows, *more]))
    assert verdict is not None
    assert verdict[0] == word


@pytest.mark.slow
def test_all_runs_are_made_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert len(made.rows) == count(SMOKE)
    assert page.missing(made) == []
    assert (scale.results / "methods.png").stat().st_size > 1000
    written = page.path(scale).read_text(encoding="utf-8")
    assert "Not run yet" not in written
    groups = made.whole(DIFFERENT)
    assert groups is not None
    (ssgd, ours) = (groups[name][0] for name in ("ssgd", OURS[0]))
    assert ssgd.seed == ours.seed
    assert 0 < ssgd.lan < ssgd.office < ssgd.fibre < ssgd.mobile
    assert ssgd.lan > SMOKE.steps * SMOKE.gradient
    assert_table_is_enough(tmp_path, TABLE, command.main, command.publish)
