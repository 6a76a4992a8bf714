"""The DATE study: its plan, its criteria, and all of its code at a scale that means nothing."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.common.scale import smoke
from experiments.date import claims, command, groups, page, plan
from experiments.date.plan import PARTS, TOGGLES
from experiments.date.rows import TABLE, Row, parsed_ratios, planned, read_csv, write_csv
from experiments.date.size import FULL, SMOKE, Study
from gossip.config import Config
from gossip.config.presets import PRESETS
from gossip.rates import Span
from gossip.study.rate_rule import budget, rule
from gossip.task.layers import Layer


def known(key: str) -> float:
    """All trials done, all alike: the first rate of each grid is chosen."""
    return 0.0


def all_runs(size: Study) -> dict[str, Config]:
    return {key: run for part in PARTS for key, run in plan.runs(part, size, known).items()}


@pytest.mark.parametrize("part", ["lenet", "long", "needle", "lstm", "lipschitz"])
@pytest.mark.parametrize("size", [FULL, SMOKE], ids=["full", "smoke"])
def test_runs_of_a_part_see_equally_many_samples(size: Study, part: str) -> None:
    runs = plan.runs(part, size, known).values()
    assert len({(run.epochs, run.data.validation) for run in runs}) == 1


@pytest.mark.parametrize("size", [FULL, SMOKE], ids=["full", "smoke"])
def test_every_method_has_equally_many_trials(size: Study) -> None:
    for _, tuned in size.lenet.solvers:
        assert len(tuned.manual) == len(tuned.date)
    of = size.lstm
    trials = {len(grid) for _, _, grid in of.rivals} | {len(of.date), len(of.wide)}
    assert len(trials) == 1
    runs = plan.runs("lstm", size, lambda key: None)
    tried = Counter(key.rsplit("-lr")[0] for key in runs)
    assert set(tried.values()) == trials


def test_date_is_tuned_at_the_baseline_and_nowhere_else() -> None:
    runs = plan.runs("lstm", FULL, known)
    elsewhere = [k for k in runs if "-date-" in k and f"-b{FULL.lstm.baseline}-" not in k]
    assert len(elsewhere) == len(FULL.lstm.batches) - 1


def test_runs_that_need_a_choice_wait_for_all_trials() -> None:
    trials = plan.runs("lenet", FULL, lambda key: None)
    assert all("-b1024-" in key for key in trials)
    one_missing = dict.fromkeys(list(trials)[1:], 0.1).get
    assert not any("momentum-manual-b8192" in k for k in plan.runs("lenet", FULL, one_missing))


def test_the_lowest_validation_error_wins_and_what_has_no_model_never_does() -> None:
    errors = {"a": 0.2, "b": 0.1, "c": math.inf}
    assert plan.best(["a", "b", "c"], errors.get) == 1
    assert plan.best(["a", "b", "d"], errors.get) is None
    assert plan.best(["c"], errors.get) is None


def test_the_toggles_add_up_to_the_preset() -> None:
    assert plan.recipe("ratio") == PRESETS["date"]["rate"] == plan.recipe("date")
    assert plan.recipe("plain") == {}
    lengths = [len(plan.recipe(toggle)) for toggle in TOGGLES]
    assert lengths == [0, 1, 2, 3, 4]


def test_legw_warms_up_over_the_baselines_updates_and_peaks_at_the_root() -> None:
    config = all_runs(FULL)["lenet-rmsprop-roller-coaster-b8192-lr0.0005-seed0"]
    length = budget(config, FULL.samples)
    made = rule(config.rate, length, (Layer("w", 0, 1, (1,)),))
    rates, state = [], made.init()
    for t in range(math.ceil(length.steps)):
        paced, _ = made.pace(Span(t, t + 1), None, state)
        rates.append(float(paced.lr))
        state = paced.memory
    updates = FULL.lenet.warmup * FULL.lenet.epochs * FULL.samples / FULL.lenet.baseline
    assert max(rates) == pytest.approx(5e-4 * math.sqrt(8), rel=0.06)
    assert 1 + rates.index(max(rates)) == math.floor(updates)


def test_the_number_of_runs_does_not_depend_on_what_is_chosen() -> None:
    for part in PARTS:
        total = plan.count(part, FULL)
        assert len(plan.runs(part, FULL, lambda key: float(len(key)))) == total


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("date")
    assert command.main(["--smoke", "--folder", str(path), "--jobs", "2"]) == 0
    command.publish(smoke(path))
    page.write(smoke(path))
    return path


def test_all_runs_are_made_and_have_a_row(folder: Path) -> None:
    scale = smoke(folder)
    rows = read_csv(scale.results / TABLE)
    assert {row.key for row in rows} == planned(scale)
    assert page.missing(rows, SMOKE) == []
    assert {row.part for row in rows} == {"lenet", "long", "needle", "lipschitz", "lstm"}
    assert all(math.isfinite(row.peak_epoch) for row in rows if row.part == "lipschitz")
    ratios = groups.ratio_run(rows, SMOKE)
    assert ratios
    assert all(0.1 <= r <= 10 for found in parsed_ratios(ratios).values() for r in found)


def test_rows_survive_the_table(folder: Path) -> None:
    scale = smoke(folder)
    rows = read_csv(scale.results / TABLE)
    write_csv(rows, folder / "again.csv")
    assert (folder / "again.csv").read_bytes() == (scale.results / TABLE).read_bytes()


def test_the_page_says_that_it_is_a_smoke_test_and_has_all_parts(folder: Path) -> None:
    scale = smoke(folder)
    text = page.path(scale).read_text(encoding="utf-8")
    assert "not results" in text.splitlines()[0]
    assert "Not run yet" not in text
    for name in ("lenet", "lstm", "needle", "lipschitz", "ratios"):
        assert f"date_{name}.png" in text
        assert (scale.results / f"date_{name}.png").stat().st_size < 200_000


def test_a_page_without_runs_names_all_that_is_missing(tmp_path: Path) -> None:
    text = page.text(smoke(tmp_path))
    for part in PARTS:
        total = plan.count(part, SMOKE)
        assert f"{part}: {total} of {total} runs" in text


def needle(error: float, **changes: Any) -> Row:
    row = Row(
        part="needle",
        key="",
        method="lars",
        batch=8192,
        lr=10.0,
        seed=0,
        epochs=4.0,
        updates=27,
        verdict="converged",
        validation_error=error,
        test_error=error,
        train_loss=0.1,
    )
    row = replace(row, **changes)
    return replace(row, key=plan.needle_name(FULL, row.lr, row.seed))


def fine_grid(errors: dict[int, float]) -> list[Row]:
    """All runs of the needle with rate 10 the best; by seed the errors differ by 0.2 points."""
    coarse = [needle(0.5, lr=lr) for lr in FULL.needle.coarse if lr != 10]
    return coarse + [
        needle(errors[k] + 0.002 * seed, lr=10 * FULL.needle.step**k, seed=seed)
        for k in FULL.needle.fine
        for seed in range(FULL.needle.seeds)
    ]


def test_a_needle_is_a_needle_by_the_numbers_alone() -> None:
    flat = dict.fromkeys(FULL.needle.fine, 0.05)
    no, sharp = fine_grid(flat), fine_grid(flat | {1: 0.09})
    assert claims.lars_has_a_needle([], FULL) is None
    assert claims.lars_has_a_needle(no[:-1], FULL) is None
    assert not claims.lars_has_a_needle(no, FULL)[0]
    assert claims.lars_has_a_needle(sharp, FULL)[0]


def test_the_noise_over_seeds_is_pooled_from_the_variances_of_the_rates() -> None:
    """Two seeds, at every other rate 10 points apart: variances of 0 and of 50 points squared."""
    rows = fine_grid(dict.fromkeys(FULL.needle.fine, 0.05))
    loud = [10 * FULL.needle.step**k for k in FULL.needle.fine[1::2]]
    errors = {0: 0.05, 1: 0.15}
    fine = [row for row in rows if row.test_error < 0.1]
    rows = [row for row in rows if row not in fine]
    rows += [replace(row, test_error=errors[row.seed * (row.lr in loud)]) for row in fine]
    outcome = claims.lars_has_a_needle(rows, FULL)
    pooled = math.sqrt(50 * len(loud) / len(FULL.needle.fine))
    assert outcome
    assert outcome[1].endswith(f"standard deviation over seeds {pooled:.2f}")


def test_a_run_without_a_model_counts_as_guessing() -> None:
    assert groups.test_error(needle(0.05, train_loss=math.nan)) == groups.GUESSING
