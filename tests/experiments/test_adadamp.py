"""The AdaDamp study: its plan, its numbers, and all of its code at a scale that means nothing."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.adadamp import claims, command, facts, page, plan
from experiments.adadamp.groups import Measured, error_at, first_at
from experiments.adadamp.methods import BASELINE, METHODS, SCHEDULES, linear, updates
from experiments.adadamp.rows import Point, Row, curves, read, table
from experiments.adadamp.size import FULL, IMAGES, SMOKE, SMOKE_IMAGES, Size
from experiments.adadamp.workers import Wait
from experiments.common.pairs import difference
from experiments.common.scale import smoke
from gossip.config import Config
from gossip.damping import PadaDamp, planned
from tests.experiments.keeping import assert_table_is_enough


def all_runs(size: Size) -> dict[str, Config]:
    return {
        key: run for part in size.parts for key, run in plan.runs(part, size, lambda k: 0.0).items()
    }


def row(key: str, **more: object) -> Row:
    method, _, rest = key.rpartition("-lr")
    lr, _, seed = rest.partition("-seed")
    given = {
        "epochs": 4.0,
        "updates": 100,
        "first_batch": 64,
        "last_batch": 64,
        "verdict": "converged",
    }
    given |= {"lost": False, "validation_error": 0.1, "test_error": 0.1}
    return Row(key=key, method=method, lr=float(lr), seed=int(seed), **(given | more))  # type: ignore[arg-type]


def test_every_method_has_as_many_trials_on_the_same_samples() -> None:
    runs = all_runs(FULL)
    tuning = [key for key in runs if key.endswith(f"-seed{FULL.tuning_seed}")]
    counts = Counter(key.rpartition("-lr")[0] for key in tuning)
    assert len(set(counts.values())) == 1
    assert set(counts) == set(METHODS)
    assert FULL.tuning_seed not in FULL.seeds
    assert {run.epochs for run in runs.values()} == {FULL.epochs}
    totals = {key: run.gossip.learners * run.data.batch_size for key, run in runs.items()}
    assert {total for key, total in totals.items() if "double" not in key} == {FULL.batch}


def test_on_cifar10_the_five_schedules_alone_are_run_with_convolutions() -> None:
    runs = all_runs(IMAGES)
    assert {(run.data.dataset, run.model.model) for run in runs.values()} == {("cifar10", "cnn")}
    judged = Counter(key.rpartition("-lr")[0] for key in runs if "-seed100" not in key)
    assert judged == dict.fromkeys(SCHEDULES, len(IMAGES.seeds))
    assert {run.seed for run in runs.values()} == {*IMAGES.seeds, IMAGES.tuning_seed}


def test_nothing_is_judged_before_all_trials_are_there() -> None:
    trials = plan.runs("dampers", FULL, lambda key: None)
    assert len(trials) == len(METHODS) * len(FULL.rates)
    errors = dict.fromkeys(trials, 0.5) | {plan.key("decay", 0.02, FULL.tuning_seed): 0.1}
    assert plan.chosen("decay", FULL, errors.get) == 0.02
    assert plan.key("decay", 0.02, 0) in plan.runs("dampers", FULL, errors.get)


def test_schedules_differ_in_the_damper_alone_and_the_double_one_in_batch_and_rate() -> None:
    runs = {name: plan.config(name, FULL, 0.02, 0) for name in SCHEDULES}
    double = runs.pop("geodamp-double")
    assert len({(run.rate, run.data) for run in runs.values()}) == 1
    assert double.rate.lr == 2 * runs[BASELINE].rate.lr
    assert double.data.batch_size == 2 * runs[BASELINE].data.batch_size


def test_padadamp_makes_as_many_updates_as_geodamp() -> None:
    damper = PadaDamp(initial=FULL.batch, rate=float(linear(FULL)[0].partition("=")[2]))
    made = sum(1 for _ in planned(damper, FULL.epochs, FULL.samples))
    assert made == pytest.approx(updates(FULL), rel=0.01)


def test_the_papers_schedules_are_exact() -> None:
    found = list(facts.schedules())
    assert [s.updates for s in found] == [78_200, 34_520, 29_480, 29_240, 14_960]
    for s in found:
        assert (s.batches, s.rates) == (s.published_batches, s.published_rates)


def test_gradient_diversity_of_two_gradients() -> None:
    assert facts.delta(torch.tensor([[3.0, 4.0], [3.0, 4.0]])) == pytest.approx(1.0)
    assert facts.delta(torch.tensor([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(2.0)


def test_a_difference_is_of_runs_of_one_seed_in_points() -> None:
    ours = {s: row(plan.key("geodamp", 0.01, s), test_error=0.1 + s / 100) for s in (1, 2, 3)}
    theirs = {s: row(plan.key("decay", 0.01, s), test_error=0.1) for s in (0, 1, 2, 3)}
    found = difference(ours, theirs)  # 1, 2, 3 points: sd 1, t(0.975, 2) = 4.303
    half = 4.302653 / 3**0.5
    assert found == pytest.approx((2.0, 2.0 - half, 2.0 + half))


def test_a_curve_is_linear_between_evaluations() -> None:
    seconds = dict.fromkeys(
        (
            f"{name}_{kind}"
            for name in ("centralised", "moderate", "high")
            for kind in ("4", "each")
        ),
        0.0,
    )
    curve = [
        Point(key="a", update=i, epoch=i, test_error=e, test_loss=e, **seconds)
        for i, e in enumerate((0.9, 0.3, 0.1))
    ]
    assert error_at(curve, 0.5) == pytest.approx(0.6)
    assert first_at(curve, 0.3, "update") == 1
    assert str(first_at(curve, 0.05, "update")) == "nan"


@pytest.mark.parametrize(("worse", "holds"), [(0.004, "yes"), (0.0098, "open"), (0.02, "no")])
def test_no_worse_means_the_whole_interval(worse: float, holds: str) -> None:
    size = replace(FULL, seeds=(0, 1, 2))
    names = ("decay", "geodamp")
    rows = [
        row(plan.key(name, lr, size.tuning_seed), validation_error=abs(lr - 0.02))
        for name in names
        for lr in size.rates
    ]
    for seed in size.seeds:
        rows.append(row(plan.key("decay", 0.02, seed), test_error=0.1 + seed / 1000))
        error = 0.1 + worse + seed / 900
        rows.append(row(plan.key("geodamp", 0.02, seed), test_error=error, updates=40))
    made = Measured(size, [], [], rows, [])
    verdict = claims.no_worse(("geodamp",), "decay", 0.5)(made)
    assert verdict is not None
    assert verdict[0] == holds
    assert claims.no_worse(("geodamp",), "decay", 0.3)(made)[0] == "no"  # type: ignore[index]
    assert claims.no_worse(("lena",), "decay")(made) is None


@pytest.mark.parametrize(
    ("ms", "holds"), [((330, 170, 130, 160, 190), True), ((120, 170, 200, 230, 300), False)]
)
def test_neither_the_fewest_nor_the_most_workers_are_fastest(ms, holds) -> None:
    waits = [
        Wait(samples=s, workers=512 // s, updates=30, update_ms=value, update_ms_q1=0,
             update_ms_q3=0, load=1)
        for s, value in zip((32, 64, 128, 256, 512), ms, strict=True)
    ]  # fmt: skip
    verdict = claims.between(Measured(FULL, [], [], [], [], waits))
    assert verdict is not None
    assert verdict[0] is holds
    assert waits[0].epoch_s == pytest.approx(98 * ms[0] / 1e3)
    assert waits[2].overhead_ms == pytest.approx(ms[2] - 39.16)
    assert claims.between(Measured(FULL, [], [], [], [], waits[:4])) is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adadamp")
    assert command.main(["--smoke", "--folder", str(path), "--jobs", "1"]) == 0
    command.publish(smoke(path))
    page.write(smoke(path))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMOKE, SMOKE_IMAGES], ids=lambda size: size.name)
def test_all_runs_are_made_and_shown(folder: Path, size: Size) -> None:
    scale = smoke(folder)
    made = page.measured(scale, size)
    rows, points = read(scale.results, size)
    assert page.missing(made) == []
    assert len(rows) == len({row.key for row in rows})
    wanted = {*SCHEDULES, *size.methods} if "dampers" in size.parts else {*SCHEDULES}
    assert {row.method for row in rows} == wanted
    assert {point.key for point in points} == {
        row.key for row in rows if row.method in SCHEDULES and row.seed in size.seeds
    }
    for found in rows:
        if found.method in SCHEDULES and found.seed in size.seeds:
            curve = made.curve(found)
            assert curve[-1].update == found.updates
            assert curve[-1].high_each > curve[0].high_each == 0
    assert {path.suffix for path in scale.results.iterdir()} == {".csv", ".png"}
    text = page.path(scale).read_text(encoding="utf-8")
    assert text == page.text(scale)
    assert "not results" in text.splitlines()[0]
    assert "nan" not in text


def test_a_page_without_runs_names_all_that_is_missing(tmp_path: Path) -> None:
    text = page.text(smoke(tmp_path))
    count = len(SMOKE.rates) + len(SCHEDULES) * len(SMOKE.seeds)
    assert f"schedules: {count} runs" in text


@pytest.mark.slow
def test_without_its_run_folders_the_study_goes_on_from_its_tables(folder: Path) -> None:
    results = smoke(folder).results
    of_runs = [results / name(size) for size in (SMOKE, SMOKE_IMAGES) for name in (table, curves)]
    before = [path.read_bytes() for path in of_runs]
    assert_table_is_enough(folder, table(SMOKE), command.main, command.publish)
    assert [path.read_bytes() for path in of_runs] == before
