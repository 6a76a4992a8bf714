"""The study of smoothness: its plan, its verdicts on known numbers, its code on a smoke test."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.common.scale import smoke
from experiments.smoothness import claims, command, page, rows
from experiments.smoothness.groups import Measured
from experiments.smoothness.plan import ARMS, DPSGD, SSGD, key, runs
from experiments.smoothness.rows import Row, row_key
from experiments.smoothness.size import FULL, SMOKE
from gossip.checkpoint import newest
from tests.experiments.keeping import assert_table_is_enough


def study(factor: float = 0.5, jitter: float = 0.01) -> Measured:
    """The average smooths by a factor; SSGD has a lambda_max of 4, DPSGD of 1; all die at 1.5."""
    made = []
    for alpha in FULL.alphas:
        for arm in ARMS:
            for seed in FULL.seeds:
                draw = math.exp(jitter * (seed % 3 - 1))
                own = (4.0 if arm == SSGD else 1.0) * draw
                died = alpha == FULL.alphas[-1]
                made += [
                    Row(
                        key=f"{alpha}{arm}{seed}{step}", alpha=alpha, arm=arm, seed=seed, step=step,
                        verdict="diverged" if died else "converged", steps=FULL.steps,
                        test_error=0.9 if died else 0.03, none_lambda_max=own, none_difference=own,
                        gaussian1_lambda_max=factor * own * draw,
                        learners_bound=100 * own * draw**3,
                    )
                    for step in FULL.at
                ]  # fmt: skip
    return Measured(FULL, tuple(made))


def judge(words: str, made: Measured) -> tuple[str, str]:
    (claim,) = (claim for claim in claims.CLAIMS if claim.statement.startswith(words))
    verdict = claim.measured(made)
    assert verdict is not None
    return str(verdict[0]), verdict[1]


def test_algorithms_differ_in_how_they_average_alone() -> None:
    made = runs(FULL)
    assert len(made) == len(FULL.alphas) * len(ARMS) * len(FULL.seeds)
    for alpha in FULL.alphas:
        a, b = (made[key(alpha, arm, 440)] for arm in ARMS)
        assert replace(a, algorithm=b.algorithm) == b
        every, keep = a.reliability.checkpoint_every, a.reliability.checkpoint_keep
        assert every is not None
        assert every * keep > a.steps
        assert all(step % every == 0 for step in FULL.at)


@pytest.mark.parametrize(
    ("factor", "jitter", "word"), [(0.5, 0.01, "yes"), (1.0, 0.01, "no"), (0.9, 0.01, "open")]
)
def test_smoother_is_a_ratio_below_its_bound(factor: float, jitter: float, word: str) -> None:
    said, text = judge("Gaussian noise of the learners' σ_w", study(factor, jitter))
    assert said == word
    assert float(text.split()[0]) == pytest.approx(factor, rel=0.01)


def test_the_bound_is_compared_with_the_averaged_loss() -> None:
    assert judge("2G/σ_w is the smoothness", study(0.5))[0] == "no"
    assert judge("2G/σ_w is the smoothness", study(20.0))[0] == "yes"


def test_the_edge_of_stability_is_two_over_alpha() -> None:
    made = study()
    assert judge("SSGD is beyond the edge", made)[0] == "yes"
    assert judge("DPSGD is not", made)[0] == "yes"
    found = made.level(FULL.alpha, SSGD, "none_lambda_max", FULL.early, FULL.alpha / 2)
    assert found is not None
    draws = [math.exp(0.01 * (seed % 3 - 1)) for seed in FULL.seeds]
    expected = 2.0 * math.prod(draws) ** (1 / len(draws))
    assert found.value == pytest.approx(expected)


def test_of_runs_at_the_largest_rate_the_larger_number_tells_who_dies() -> None:
    largest, dead = FULL.alphas[-1], FULL.seeds[:5]
    made = [
        replace(row, verdict="converged", test_error=0.03)
        if (row.alpha, row.arm) == (largest, DPSGD) and row.seed not in dead
        else replace(row, none_lambda_max=1.5 if row.arm == DPSGD else 0.5)
        if row.alpha == largest
        else row
        for row in study().rows
    ]
    # Of DPSGD the five that died have 1.5, more than the others' 1; SSGD's ten, all dead, 0.5.
    assert Measured(FULL, tuple(made)).tells("none_lambda_max", (DPSGD,)).value == 1
    both = Measured(FULL, tuple(made)).tells("none_lambda_max")
    assert both.value == pytest.approx(5 * 5 / (15 * 5))
    not_finite = [
        replace(row, none_lambda_max=math.nan) if row.arm == SSGD else row for row in made
    ]
    assert Measured(FULL, tuple(not_finite)).tells("none_lambda_max").value == 1


def test_nothing_is_judged_before_all_runs_are_there() -> None:
    made = Measured(FULL, study().rows[1:])
    assert all(
        claim.measured(made) is None for claim in claims.SURVIVAL if "both" in claim.statement
    )
    assert made.level(FULL.alphas[0], SSGD, "none_lambda_max", FULL.early) is None


def test_a_run_is_missing_if_one_of_its_steps_is() -> None:
    wanted = dict(list(runs(FULL).items())[:2])
    first, second = wanted
    made = [
        Row(key=row_key(name, step), alpha=1, arm=SSGD, seed=1, step=step, verdict="")
        for name in wanted
        for step in FULL.at
    ]
    assert rows.missing(wanted, FULL, made) == {}
    assert list(rows.missing(wanted, FULL, made[:-1])) == [second]
    assert list(rows.missing(wanted, FULL, [])) == [first, second]


@pytest.mark.slow
def test_all_runs_are_made_measured_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert len(made.rows) == len(SMOKE.at) * len(runs(SMOKE))
    for row in made.rows:
        assert row.none_lambda_max > 0
        assert math.isfinite(row.gaussian30_difference) == (row.arm == DPSGD)
        assert math.isfinite(row.learners_bound) == (row.arm == DPSGD)
    assert not [path for path in scale.runs.rglob("checkpoint") if newest(path)]
    assert (scale.results / "smoothness.png").stat().st_size > 1000
    assert "Not run yet" not in page.path(scale).read_text(encoding="utf-8")
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
