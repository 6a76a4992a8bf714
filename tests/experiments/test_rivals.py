"""The comparison of decentralised and large-batch training: its plan, and a smoke test."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from experiments.common.scale import smoke
from experiments.lena import plan as lena_plan
from experiments.lena.plan import FULL
from experiments.lena.rows import read_csv
from experiments.lena.tables import Rows
from experiments.rivals import command, page
from experiments.rivals.plan import PEAKS, RIVALS, final, tuning

LR = 0.04


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rivals")
    assert command.main(["--smoke", "--folder", str(path)]) == 0
    command.publish(smoke(path))
    page.write(smoke(path))
    return path


def test_every_method_has_as_many_trials_on_the_same_samples() -> None:
    runs = tuning(FULL)
    counts = Counter(name.rpartition("-lr")[0] for name in runs)
    assert len(counts) == 1 + len(RIVALS) * len(FULL.rival_learners)
    assert set(counts.values()) == {len(FULL.rates)}
    assert len({(c.epochs, c.seed, c.data) for c in runs.values()}) == 1
    assert {c.model.model for c in runs.values()} == {FULL.main.model}


@pytest.mark.parametrize("n", FULL.rival_learners)
@pytest.mark.parametrize("name", RIVALS)
def test_trials_are_a_factor_of_two_apart(name: str, n: int) -> None:
    rates = RIVALS[name].rates(FULL, n)
    assert [b / a for a, b in pairwise(rates)] == pytest.approx([2.0] * 3)


@pytest.mark.parametrize("n", FULL.rival_learners)
def test_what_linear_scaling_is_tried_with_is_the_same_rate_after_scaling(n: int) -> None:
    for plain, scaled in (("ssgd", "lsw"), ("dpsgd-exp", "dpsgd-exp-lsw")):
        assert RIVALS[plain].rates(FULL, n) == PEAKS
        assert [n * lr for lr in RIVALS[scaled].rates(FULL, n)] == pytest.approx(PEAKS)


def test_runs_of_one_name_are_one_run_in_both_studies() -> None:
    ours, theirs = tuning(FULL), {}
    for part in lena_plan.PARTS:
        theirs |= lena_plan.part(FULL, part, LR)
    common = ours.keys() & theirs.keys()
    assert len(common) > 3
    assert all(ours[name] == theirs[name] for name in common)


def test_the_best_trial_goes_through_all_seeds() -> None:
    errors = dict.fromkeys(tuning(FULL), 0.5)
    best = lena_plan.key(FULL.main, RIVALS["lars"].recipe, 64, 0.8, 0)
    errors[best] = 0.1
    runs = final(FULL, errors.get)
    assert {best, best.replace("seed0", "seed1")} <= set(runs)
    assert len(runs) == FULL.seeds * (1 + len(RIVALS) * len(FULL.rival_learners))
    assert final(FULL, {}.get) == {}


def test_all_runs_are_made_and_shown(folder: Path) -> None:
    scale = smoke(folder)
    rows = Rows(lena_plan.SMOKE, read_csv(scale.results / "rivals.csv"))
    assert page.missing(rows) == []
    assert set(rows.found) == set(tuning(lena_plan.SMOKE))  # one seed: its trial is the final run
    assert {path.name for path in scale.results.iterdir()} == {"rivals.csv", "rivals.png"}
    text = page.path(scale).read_text(encoding="utf-8")
    assert text == page.text(scale)
    assert "not results" in text.splitlines()[0]
    assert "nan" not in text


def test_a_page_without_runs_names_all_that_is_missing(tmp_path: Path) -> None:
    text = page.text(smoke(tmp_path))
    assert "trials: 8 of 8 runs" in text
