"""The study of flatness: its plan, its verdicts, and all of its code on a smoke test."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.common.scale import smoke
from experiments.flatness import claims, command, contours, page, rows
from experiments.flatness.groups import Measured
from experiments.flatness.plan import ARMS, SSGD, key, runs, shown
from experiments.flatness.rows import Row, rises, row_key
from experiments.flatness.size import FULL, SMOKE
from gossip.config import Config
from gossip.storage.names import CHECKPOINTS
from tests.experiments.keeping import assert_table_is_enough

RING = "ring"
CELL = FULL.cells[1]


def measured(factors: tuple[float, ...], *, jitter: float = 0.01) -> Measured:
    """A study whose ring's lambda_max is SSGD's times a factor at each level, up to the seed."""
    made = [
        Row(
            key=f"{arm}{seed}{level}", alpha=CELL.alpha, arm=arm, seed=seed, level=level,
            verdict="", step=9, loss=level,
            lambda_max=seed * (factor * math.exp(jitter * (seed % 3 - 1)) if arm == RING else 1.0),
        )
        for arm in (SSGD, RING)
        for seed in FULL.seeds
        for level, factor in zip(FULL.levels, factors, strict=True)
    ]  # fmt: skip
    return Measured(FULL, tuple(made))


def test_arms_differ_in_how_they_average_alone() -> None:
    made = runs(FULL)
    assert len(made) == len(FULL.cells) * len(ARMS) * len(FULL.seeds)
    for cell in FULL.cells:
        of = [made[key(cell, arm, 400)] for arm in ARMS]
        assert len({(c.data, c.model, c.rate, c.seed, c.steps, c.reliability) for c in of}) == 1
        kept = of[0].reliability
        assert kept.checkpoint_keep * kept.checkpoint_every > cell.steps
    assert FULL.settings.samples == 60_000 - FULL.held_out  # the loss is that of all of them


@pytest.mark.parametrize(
    ("factors", "word"),
    [((0.7, 0.8, 0.6), "yes"), ((0.7, 0.8, 1.0), "no"), ((0.7, 0.9, 0.6), "open")],
)
def test_it_is_flatter_if_it_is_at_all_levels(factors: tuple[float, ...], word: str) -> None:
    verdict = claims.ratio((1, RING), (1, SSGD), "lambda_max", claims.FLATTER)(measured(factors))
    assert verdict is not None
    assert verdict[0] == word


def test_a_ratio_is_the_geometric_mean_of_the_pairs_of_a_seed() -> None:
    made = measured((0.5, 0.5, 0.5), jitter=0.3)
    found = made.ratio((CELL, RING), (CELL, SSGD), FULL.levels[0], "lambda_max").estimate
    assert found is not None
    drawn = [math.exp(0.3 * (seed % 3 - 1)) for seed in FULL.seeds]
    assert found.value == pytest.approx(0.5 * math.prod(drawn) ** (1 / len(drawn)))
    assert found.low < 0.5 < found.high


def changed(made: Measured, arm: str, seeds: int, **numbers: float) -> Measured:
    """The study with other numbers at the last level, in so many runs of an arm."""
    return Measured(FULL, tuple(
        replace(row, **numbers)
        if (row.arm, row.level) == (arm, FULL.levels[-1]) and row.seed < 400 + seeds else row
        for row in made.rows
    ))  # fmt: skip


NEVER = {"step": -1, "loss": math.nan, "lambda_max": math.nan}


@pytest.mark.parametrize(
    ("lost", "both", "word", "said"),
    [(8, False, "open", "0.03: 2 of 10 pairs, too few"), (3, True, "open", "7 of 10 pairs, too"),
     (2, False, "open", "8 of 10 pairs, 8 and 10 runs came to it"),
     (2, True, "yes", "8 of 10 pairs: yes"), (1, False, "yes", "9 of 10 pairs: yes")],
)  # fmt: skip
def test_a_level_is_open_if_many_pairs_lack_a_run_or_one_side_lost_more(lost, both, word, said):
    made = changed(measured((0.5, 0.5, 0.5)), RING, lost, **NEVER)
    made = changed(made, SSGD, lost, **NEVER) if both else made
    assert made.complete(CELL, RING)
    verdict = claims.ratio((1, RING), (1, SSGD), "lambda_max", claims.FLATTER)(made) or ("", "")
    assert verdict[0] == word
    assert said in verdict[1]


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_number_that_cannot_be_compared_leaves_its_level_open(value: float) -> None:
    made = changed(measured((0.5, 0.5, 0.5)), RING, 1, lambda_max=value)
    verdict = claims.ratio((1, RING), (1, SSGD), "lambda_max", claims.FLATTER)(made) or ("", "")
    assert verdict[0] == "open"
    assert "0.03: 10 of 10 pairs, not all have a number" in verdict[1]


@pytest.mark.parametrize(("factor", "word"), [(0.5, "yes"), (1.5, "no")])
def test_what_is_not_at_the_same_loss_is_open(factor: float, word: str) -> None:
    made = measured((0.5, 0.5, factor))
    judge = claims.ratio((1, RING), (1, SSGD), "lambda_max", claims.FLATTER)
    assert (judge(made) or ("",))[0] == word
    unlike = changed(made, RING, 10, loss=FULL.levels[-1] * 0.9)
    assert (judge(unlike) or ("",))[0] == "open"
    losses = claims.ratio((1, RING), (1, SSGD), "loss", claims.EQUAL)(unlike)
    assert (losses or ("",))[0] == "no"


def test_nothing_is_judged_before_all_runs_are_there() -> None:
    made = measured((0.5, 0.5, 0.5))
    assert claims.ratio((1, RING), (1, SSGD), "lambda_max", claims.FLATTER)(
        Measured(FULL, made.rows[:-1])
    ) is None  # fmt: skip


def test_a_run_is_missing_if_one_of_its_levels_is() -> None:
    wanted: dict[str, Config] = {"a": Config(), "b": Config()}
    made = [
        Row(key=row_key(run, level), alpha=1, arm=SSGD, seed=1, level=level, verdict="")
        for run, level in [("a", 0.3), ("a", 0.1), ("a", 0.03), ("b", 0.3), ("b", 0.03)]
    ]
    assert list(rows.missing(wanted, FULL, made)) == ["b"]
    assert list(rows.missing(wanted, FULL, [])) == ["a", "b"]


def test_the_rise_beyond_and_behind_the_learners_is_read_from_their_lines() -> None:
    lines = {
        "mean to learner 0": {"at": [-1, 0, 2], "loss": [3.0, 1.0, 5.0]},
        "mean to learner 1": {"at": [-1, 0, 2], "loss": [5.0, 1.0, 9.0]},
        "learner 0 to learner 1": {"at": [-0.5, 0, 1.5], "loss": [99.0, 99.0, 99.0]},
    }
    assert rises({"numbers": {"loss": 1.0}, "lines": lines}) == (3.0, 6.0)
    assert all(map(math.isnan, rises({"numbers": {"loss": 1.0}, "lines": {}})))


def test_the_contours_shown_are_of_runs_that_are_judged(tmp_path: Path) -> None:
    judged = runs(FULL)
    assert all(config in judged.values() for config in shown(FULL).values())
    assert not shown(FULL).keys() & judged.keys()
    first, *others = shown(FULL)
    found = {first: {"step": 3, "contours": {}}}
    contours.write(found, smoke(tmp_path).results)
    assert contours.read(smoke(tmp_path)) == found
    assert list(contours.missing(FULL, found)) == others


def test_a_run_is_measured_once_if_it_is_interrupted_while_its_checkpoints_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CHECKPOINTS / "step-1").mkdir(parents=True)
    times = []
    monkeypatch.setattr(command, "landscape", lambda *_, **__: times.append(1))
    with monkeypatch.context() as patch:
        patch.setattr(command.shutil, "rmtree", lambda path: (path / "step-1").rmdir() or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            command.measure(tmp_path, FULL.settings, FULL.levels)
    command.measure(tmp_path, FULL.settings, FULL.levels)
    assert (times, list(tmp_path.iterdir())) == ([1], [])


@pytest.mark.slow
def test_all_runs_are_made_measured_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert len(made.rows) == len(SMOKE.levels) * len(runs(SMOKE))
    there = [row for row in made.rows if row.level == SMOKE.levels[0] and row.step > 0]
    assert {row.arm for row in there} == set(ARMS)
    for row in there:
        assert row.loss <= row.level
        assert math.isfinite(row.lambda_max)
        assert (row.consensus_distance > 0) == (row.arm != SSGD) == math.isfinite(row.beyond)
    assert not list(scale.runs.rglob("checkpoint"))
    assert (scale.results / "flatness.png").stat().st_size > 1000
    places = contours.read(scale)
    assert list(places) == list(shown(SMOKE))
    assert places == contours.load(scale)
    assert all(run["step"] >= 0 for run in places.values())
    assert (scale.results / "flatness_contours.png").stat().st_size > 1000
    assert "Not run yet" not in page.path(scale).read_text(encoding="utf-8")
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
