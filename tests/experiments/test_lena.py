"""The LENA study at one worker's rate: its plan at full size, and its code on a smoke test.

The tables with every cell tuned are tried in `tests.experiments.test_tuning`.
"""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.common.markdown import percent
from experiments.common.scale import smoke
from experiments.lena import claims, command, page, plan
from experiments.lena.plan import DIAGONAL, FULL, PARTS, SINGLE, cell, key
from experiments.lena.rows import Row, read_csv, write_csv
from experiments.lena.tables import Rows, score, until
from gossip.config import Config
from gossip.data import load

LR = 0.04


def whole_plan() -> dict[str, Config]:
    runs = plan.base_grid(FULL, FULL.main) | plan.base_grid(FULL, FULL.small)
    for part in PARTS:
        runs |= plan.part(FULL, part, LR)
    return runs


def task_of(name: str) -> plan.Task:
    return FULL.small if name.startswith(FULL.small.prefix) else FULL.main


def row(key: str, **changes: object) -> Row:
    made = Row(
        key=key,
        dataset="digits",
        model="cnn",
        algorithm="ssgd",
        topology="-",
        scaling="none",
        warmup="none",
        optimizer="sgd",
        layer_ratio="off",
        learners=1,
        lr=LR,
        seed=0,
        epochs=4.0,
        updates=10,
        steps=10,
        verdict="converged",
        lost=False,
        best_error=0.1,
    )
    return replace(made, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lena")
    assert command.main(["--smoke", "--folder", str(path), "--parts", *PARTS]) == 0
    command.publish(smoke(path))
    page.write(smoke(path))
    return path


def test_all_runs_of_a_task_see_the_same_samples_equally_often() -> None:
    for name, config in whole_plan().items():
        task = task_of(name)
        data = config.data
        assert (config.epochs, data.batch_size) == (task.epochs, FULL.batch), name
        assert data.validation == task.validation, name
        assert (data.dataset, config.model.model) == (task.dataset, task.model), name


def test_table_2_is_the_whole_product_and_shares_all_but_what_it_compares() -> None:
    runs = plan.part(FULL, "table2", LR)
    cells = {(c.rate.scaling, c.rate.warmup, c.gossip.learners) for c in runs.values()}
    assert len(runs) == len(cells) == 3 * 3 * 5
    bare = {
        replace(
            c,
            gossip=replace(c.gossip, learners=1),
            rate=replace(c.rate, scaling="none", warmup="none"),
            monitoring=replace(c.monitoring, monitor_every=1),
        )
        for c in runs.values()
    }
    assert len(bare) == 1


def test_a_name_says_all_in_which_a_run_differs() -> None:
    runs = whole_plan()
    assert len(set(map(repr, runs.values()))) == len(runs)


def test_every_run_is_evaluated_often_enough() -> None:
    for name, config in whole_plan().items():
        task = task_of(name)
        steps = task.epochs * task.samples / (config.gossip.learners * FULL.batch)
        assert 12 <= math.ceil(steps) / config.monitoring.monitor_every <= 25, name


@pytest.mark.parametrize("made", [FULL, plan.SMOKE])
def test_the_plan_knows_how_many_samples_are_trained_on(made: plan.Study) -> None:
    for task in (made.main, made.small):
        try:
            dataset = load(task.dataset)
        except Exception:  # not on this machine
            pytest.skip(f"{task.dataset} is not here")
        assert len(dataset.arrays[0]) == task.samples + task.validation


def test_the_base_rate_is_the_single_workers_best_and_never_a_lost_one() -> None:
    errors = {key(FULL.main, SINGLE, 1, lr, 0): 0.1 + lr for lr in FULL.rates}
    assert plan.base_rate(FULL, FULL.main, errors.get) == FULL.rates[0]
    errors[key(FULL.main, SINGLE, 1, FULL.rates[0], 0)] = math.inf
    assert plan.base_rate(FULL, FULL.main, errors.get) == FULL.rates[1]
    del errors[key(FULL.main, SINGLE, 1, FULL.rates[-1], 0)]
    assert plan.base_rate(FULL, FULL.main, errors.get) is None


def test_lost_runs_are_counted_and_not_averaged() -> None:
    rows = [row("a", best_error=0.1), row("b", best_error=0.2), row("c", lost=True)]
    assert percent(rows) == "15.00 ± 7.07 (1 of 3 lost)"
    assert percent(rows[2:]) == "(1 of 1 lost)"
    assert score(rows) == pytest.approx(40)
    assert percent([]) == "-"


def test_a_target_that_was_not_reached_is_not_available() -> None:
    rows = [row("a", target_epochs=2.0), row("b")]
    assert until(rows, "target_epochs") == "2.00 (1 of 2)"
    assert until(rows[1:], "target_epochs") == "N/A"
    assert until([], "target_epochs") == "-"


def test_rows_survive_a_csv_file(tmp_path: Path) -> None:
    rows = [row("a", grad_var_late=2.5), row("b", lost=True, best_error=math.nan)]
    write_csv(rows, tmp_path / "rows.csv")
    assert list(map(str, read_csv(tmp_path / "rows.csv").values())) == list(map(str, rows))
    assert read_csv(tmp_path / "none.csv") == {}


def made_up(**errors: float) -> Rows:
    """Rows of Table 1 with the same error for a method at every n."""
    found = [row(key(FULL.main, SINGLE, 1, lr, 0), best_error=0.2 - lr) for lr in FULL.rates]
    lr = FULL.rates[-1]
    found += [
        row(key(FULL.main, cell(*DIAGONAL[name]), n, lr, seed), best_error=error)
        for name, error in errors.items()
        for n in FULL.learners
        for seed in range(FULL.seeds)
    ]
    return Rows(FULL, {r.key: r for r in found})


def test_a_claim_is_met_or_not_by_the_numbers_alone() -> None:
    better = made_up(LENA=0.11, LSW=0.12, AdaScale=0.13)
    verdict = claims.lena_is_best(better)
    assert verdict is not None
    assert verdict[0]
    worse = claims.lena_is_best(made_up(LENA=0.125, LSW=0.12, AdaScale=0.13))
    assert worse is not None
    assert not worse[0]
    assert claims.lena_is_best(made_up(LENA=0.1)) is None
    kept = claims.lena_keeps_accuracy(better)
    assert kept == (True, "n = 8: -1.0, n = 16: -1.0, n = 32: -1.0, n = 64: -1.0")


def test_all_runs_are_made_and_none_twice(folder: Path) -> None:
    scale = smoke(folder)
    rows = Rows(plan.SMOKE, read_csv(scale.results / "lena.csv"))
    assert page.missing(rows) == []
    before = {path: path.stat().st_mtime_ns for path in scale.runs.glob("*/*/trace.arrows")}
    command.run(scale, "table2", jobs=1)
    assert {p: p.stat().st_mtime_ns for p in scale.runs.glob("*/*/trace.arrows")} == before


def test_the_page_and_the_pictures_are_the_same_when_made_again(folder: Path) -> None:
    scale = smoke(folder)
    before = {path.name: path.read_bytes() for path in scale.results.iterdir()}
    assert set(before) == {
        "lena.csv",
        *(f"lena_{name}.png" for name in ("table1", "fig6", "variance", "warmup", "layers")),
    }
    command.publish(scale)
    assert {path.name: path.read_bytes() for path in scale.results.iterdir()} == before
    text = page.path(scale).read_text(encoding="utf-8")
    assert text == page.text(scale)
    assert "not results" in text.splitlines()[0]
    assert "nan" not in text


def test_a_page_without_runs_names_all_that_is_missing(tmp_path: Path) -> None:
    text = page.text(smoke(tmp_path))
    assert "base rate: 2 of 2 runs" in text


def test_a_mistake_of_the_user_is_one_sentence(capsys: pytest.CaptureFixture) -> None:
    assert command.main(["--smoke", "--parts", "table4"]) == 2
    assert "table4" in capsys.readouterr().err
