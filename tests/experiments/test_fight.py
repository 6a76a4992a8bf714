"""The fight: known answers first, its plan, its verdicts, and all of its code on a smoke test."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments.common import statistics, survival
from experiments.common.scale import smoke
from experiments.common.statistics import Criterion
from experiments.fight import claims, command, doubling, page, plan, rows
from experiments.fight.groups import Measured
from experiments.fight.methods import COMPLETE, GRAPHS, METHODS, SSGD
from experiments.fight.plan import EDGE, FIGHT, chosen, fight, key
from experiments.fight.rows import Row
from experiments.fight.size import FULL, SMOKE, Cell
from gossip.errors import UserError
from tests.experiments.keeping import assert_table_is_enough
from tests.experiments.test_statistics import decided

CELL = FULL.cells[0]


def drawn(rng: np.random.Generator, half: float, steepness: float) -> list[survival.Cell]:
    """Twenty runs at each rate of the edge, from a curve with this alpha_50."""
    curve = survival.Curve(steepness * math.log(half), -steepness)
    runs, alphas = len(FULL.edge_seeds), np.array(sorted(FULL.alphas))
    found = rng.binomial(runs, curve.at(alphas))
    return [survival.Cell(a, int(k), runs) for a, k in zip(alphas, found, strict=True)]


@pytest.mark.parametrize(
    ("ours", "theirs", "least", "most"),
    [(1.2, 1.2, 0.0, 0.1), (1.6, 1.45, 0.3, 0.8), (1.6, 1.2, 0.95, 1.0)],
)
def test_twenty_seeds_at_seven_rates_tell_two_curves_apart(ours, theirs, least, most, monkeypatch):
    monkeypatch.setattr(survival, "RESAMPLES", 400)
    rng, studies, hits, said = np.random.default_rng(2), 60, 0, 0
    for study in range(studies):
        pair = drawn(rng, ours, 8.0), drawn(rng, theirs, 8.0)
        if not all(map(survival.both_sides, pair)):
            continue  # open
        found = survival.alpha_50_difference(*pair, seed=study)
        hits += found.low <= ours - theirs <= found.high
        said += Criterion(low=0.0).verdict(found) == "yes"
    assert hits / studies > 0.88
    assert least <= said / studies <= most


def test_twenty_seeds_tell_nine_in_ten_from_half():
    found = decided(0.9, 0.5, Criterion(low=0.0))
    assert found["yes"] == pytest.approx(0.84, abs=0.005)
    assert found["no"] < 1e-6


def test_a_difference_of_alpha_50_is_turned_with_its_sides():
    rng = np.random.default_rng(0)
    a, b = drawn(rng, 1.6, 8.0), drawn(rng, 1.2, 8.0)
    one, other = survival.alpha_50_difference(a, b), survival.alpha_50_difference(b, a)
    assert one.value == -other.value
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=0.03)
    with pytest.raises(UserError, match="extend the grid"):
        survival.alpha_50_difference(a, [c._replace(survived=0) for c in b])


def test_draws_without_any_alpha_50_count_for_both_ends(monkeypatch):
    """A few of a hundred draws say nothing of either side: the interval has no bounds then."""
    a = b = drawn(np.random.default_rng(0), 1.2, 8.0)
    halves = np.r_[[np.inf] * 5, np.linspace(1.1, 1.3, 95)]
    monkeypatch.setattr(survival, "_halves", lambda cells, rng: halves)
    found = survival.alpha_50_difference(a, b)
    assert tuple(found) == (0.0, -math.inf, math.inf)
    one_side = iter([halves, np.linspace(1.1, 1.3, 100)])
    monkeypatch.setattr(survival, "_halves", lambda cells, rng: next(one_side))
    low, high = survival.alpha_50_difference(a, b)[1:]
    assert -0.3 < low < 0 < high == math.inf, "the first may be larger by any amount"


def test_a_contrast_covers_the_weighted_sum_of_means():
    """Two differences of 10 runs each with unlike spreads, as of two cells of the fight."""
    rng, studies, hits = np.random.default_rng(4), 600, 0
    means, spreads, weights = [2.5, 2.9, 3.5, 3.4], [0.1, 0.3, 0.6, 0.2], [0.5, -0.5, 0.5, -0.5]
    truth = float(np.dot(means, weights))
    for _ in range(studies):
        samples = [rng.normal(m, s, 10) for m, s in zip(means, spreads, strict=True)]
        found = statistics.contrast(samples, weights)
        hits += found.low <= truth <= found.high
    assert 0.925 < hits / studies < 0.975


def test_a_contrast_of_runs_that_are_all_alike_has_no_width():
    assert statistics.contrast([[2.0, 2.0], [1.0, 1.0]], [1.0, -0.5]) == (1.5, 1.5, 1.5)


def errors(best: float, *, spread: float = 1.0) -> Callable[[str], float]:
    """Validation errors that rise on both sides of a rate, by the name of a run."""

    def of(name: str) -> float:
        alpha = float(name.partition("alpha")[2].partition("-")[0])
        return 0.02 + spread * abs(math.log(alpha / best))

    return of


def test_nothing_is_chosen_before_all_trials_are_there():
    of = errors(0.4)
    one = key(CELL, SSGD, 0.2, FULL.tuning_seed)
    assert chosen(CELL, SSGD, FULL, lambda name: None if name == one else of(name)) is None
    made = fight(CELL, FULL, lambda name: None)
    assert {config.seed for config in made.values()} == {FULL.tuning_seed}
    whole = fight(CELL, FULL, of)
    assert len(whole) == len(METHODS) * (len(FULL.rates) + len(FULL.seeds))


def test_no_seed_that_tuned_anything_is_judged_and_none_is_in_both_parts():
    parts = (FULL.seeds, FULL.edge_seeds, FULL.doubling_seeds)
    assert len({FULL.tuning_seed}.union(*parts)) == 1 + sum(map(len, parts))


def test_methods_differ_in_algorithm_and_graph_alone_and_see_equally_many_samples():
    for cell in FULL.cells:
        made = [plan.config(cell, name, 0.1, 320, FULL) for name in METHODS]
        assert len({(c.data, c.model, c.rate, c.seed, c.steps, c.monitoring) for c in made}) == 1
        assert made[0].steps * made[0].data.batch_size * FULL.learners == FULL.samples
        assert made[0].rate.momentum == cell.momentum


def test_the_edge_is_made_in_cells_the_most_decisive_first():
    made = list(plan.edge(FULL))
    assert len(made) == len(set(made)) == 700
    few = len(METHODS) * len(FULL.alphas) * FULL.first
    pair = 2 * len(FULL.alphas) * (len(FULL.edge_seeds) - FULL.first)
    assert all(f"seed{s}" in made[i] for i, s in enumerate(range(300, 305)))
    assert {name.split("-")[1] for name in made[few : few + pair]} == {SSGD, COMPLETE}


def edge_rows(method: str, survivors: dict[float, int]) -> list[Row]:
    return [
        Row(key=plan.edge_key(method, a, s), part=EDGE, method=method, batch=2000, momentum=0.0,
            alpha=a, seed=s, steps=FULL.edge_steps, verdict="converged", survived=i < k)
        for a, k in survivors.items() for i, s in enumerate(FULL.edge_seeds)
    ]  # fmt: skip


def step_at(alpha: float) -> dict[float, int]:
    return {a: 20 if a < alpha else 10 if a == alpha else 0 for a in FULL.alphas}


@pytest.mark.parametrize(
    ("ours", "theirs", "word"), [(1.5, 1.0, "yes"), (1.0, 1.5, "no"), (1.25, 1.25, "open")]
)
def test_larger_rates_are_judged_by_alpha_50(ours, theirs, word):
    made = Measured(FULL, [*edge_rows(COMPLETE, step_at(ours)), *edge_rows(SSGD, step_at(theirs))])
    judge = claims.bears(COMPLETE, SSGD, Criterion(low=0.0))
    verdict = judge(made)
    assert verdict is not None
    assert verdict[0] == word
    assert judge(Measured(FULL, made.rows[:-1])) is None


def test_rates_that_all_survive_have_no_alpha_50():
    everywhere = dict.fromkeys(FULL.alphas, 20)
    made = Measured(FULL, [*edge_rows(COMPLETE, everywhere), *edge_rows(SSGD, step_at(1.0))])
    word, text = claims.bears(COMPLETE, SSGD, Criterion(low=0.0))(made) or ("", "")
    assert (word, "outside" in text) == ("open", True)


def fight_rows(cell: Cell, method: str, error: float, lost: int = 0) -> list[Row]:
    """Trials with the best at 0.4, and ten judged runs about an error, some of them lost."""
    rate = 0.4 * (0.25 if cell.momentum else 1)
    common = Row(key="", part=FIGHT, method=method, batch=cell.batch, momentum=cell.momentum,
                 alpha=rate, seed=0, steps=1, verdict="", survived=True)  # fmt: skip
    trials = [
        replace(common, key=key(cell, method, a, FULL.tuning_seed), alpha=a, seed=FULL.tuning_seed,
                validation_error=0.02 + abs(math.log(a / rate)))
        for a in FULL.grid(cell)
    ]  # fmt: skip
    judged = [
        replace(common, key=key(cell, method, rate, s), seed=s, survived=i >= lost,
                test_error=error + 1e-4 * i)
        for i, s in enumerate(FULL.seeds)
    ]  # fmt: skip
    return [*trials, *judged]


@pytest.mark.parametrize(
    ("error", "lost", "word"),
    [(0.02, (0, 0), "yes"), (0.04, (0, 0), "no"), (0.03, (0, 0), "open"), (0.02, (2, 1), "open"),
     (0.04, (1, 2), "open"), (0.02, (1, 2), "yes"), (0.02, (9, 0), "open")],
)  # fmt: skip
def test_survivors_are_compared_and_no_verdict_is_for_the_side_that_lost_more(error, lost, word):
    ours, theirs = fight_rows(CELL, "ring", error, lost[0]), fight_rows(CELL, SSGD, 0.03, lost[1])
    (claim,) = (c for c in claims.of_cell(CELL) if "ring" in c.statement)
    verdict = claim.measured(Measured(FULL, [*ours, *theirs]))
    assert verdict is not None
    assert verdict[0] == word
    assert claim.measured(Measured(FULL, [*ours[:-1], *theirs])) is None


def test_the_overall_verdict_is_on_the_mean_of_the_cells():
    made = [
        row
        for place, cell in enumerate(FULL.cells)
        for method, error in (("ring", 0.02 + 0.001 * place), (SSGD, 0.03))
        for row in fight_rows(cell, method, error)
    ]
    found = Measured(FULL, made).contrast(claims.overall("ring", FULL))
    assert found is not None
    assert found.estimate.value == pytest.approx(-1.0 + 0.1 * 2.5)
    grown = Measured(FULL, made).contrast(claims.growth("ring", FULL))
    assert grown is not None
    # Places of the cells with 8,000 are 1 and 4, of those with 500 they are 2 and 5.
    assert grown.estimate.value == pytest.approx(0.1 * (2.5 - 3.5))


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [((8, 0), (0, 8), ("open", "open")), ((0, 0), (8, 8), ("yes", "open")),
     ((0, 8), (0, 8), ("yes", "yes")), ((0, 8), (8, 8), ("yes", "yes"))],
)  # fmt: skip
def test_no_verdict_is_for_the_side_that_lost_more_in_one_cell(ours, theirs, words):
    """Runs lost at nB of 8,000 and of 500, where both overall and growth would be yes."""
    made = [
        row
        for cell in FULL.cells
        for method, error, lost in (("ring", 0.02, ours), (SSGD, 0.03, theirs))
        for row in fight_rows(
            cell, method, error + (0.005 if (cell.batch, method) == (500, "ring") else 0.0),
            {8000: lost[0], 500: lost[1]}.get(cell.batch, 0),
        )
    ]  # fmt: skip
    said = [
        claims.errs(partial(terms, "ring"), Criterion(high=0.0))(Measured(FULL, made))
        for terms in (claims.overall, claims.growth)
    ]
    assert tuple(verdict[0] for verdict in said if verdict) == words


def test_batch_and_rate_are_doubled_together_and_the_rate_is_halved():
    made = doubling.doubled(FULL)
    assert {alpha / batch for batch, alpha in made} == {0.1 / 250}
    assert made[-1] == (8000, 3.2)
    assert [alpha for _, alpha in doubling.halved(FULL)] == [3.2, 1.6, 0.8, 0.4, 0.2, 0.1]
    found = doubling.runs(FULL)
    assert len(found) == 11 * 3 * 10
    assert {c.steps * c.data.batch_size * c.gossip.learners for c in found.values()} == {1_200_000}


def halved_rows(method: str, survivors: list[int], error: float) -> list[Row]:
    """Runs at the largest batch; so many survive each rate, from the largest down."""
    return [
        Row(key=doubling.key(method, batch, alpha, s), part=doubling.TABLES, method=method,
            batch=batch, momentum=0.9, alpha=alpha, seed=s, steps=1, verdict="converged",
            survived=i < k, test_error=error + 1e-4 * i)
        for (batch, alpha), k in zip(doubling.halved(FULL), survivors, strict=True)
        for i, s in enumerate(FULL.doubling_seeds)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs", "fails", "beats"),
    [([10] * 6, [0, 0, 0, 10, 10, 10], "yes", "yes"), ([5, 10, 9, 9, 9, 9], [10] * 6, "no", "yes"),
     ([0, 6, 9, 9, 9, 9], [10] * 6, "no", "open"), ([0] * 6, [5] * 6, "open", "open")],
)  # fmt: skip
def test_methods_are_compared_at_the_largest_rate_that_most_runs_survive(
    ours, theirs, fails, beats
):
    rows = [*halved_rows(COMPLETE, ours, 0.02), *halved_rows(SSGD, theirs, 0.03)]
    made = Measured(FULL, rows)
    said = (
        claims.bears_doubling(SSGD, Criterion(high=0.5))(made),
        claims.better_halved(COMPLETE, SSGD)(made),
    )
    assert [verdict and verdict[0] for verdict in said] == [fails, beats]
    assert claims.better_halved(COMPLETE, SSGD)(Measured(FULL, rows[:-1])) is None


@pytest.mark.slow
def test_all_runs_are_made_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert page.missing(made) == []
    edge = len(METHODS) * len(SMOKE.alphas) * len(SMOKE.edge_seeds)
    assert made.count(EDGE) == edge
    assert made.count(doubling.TABLES) == len(doubling.runs(SMOKE))
    assert all(len(made.tuned(c, m)) == len(SMOKE.seeds) for c in SMOKE.cells for m in METHODS)
    assert {row.method for row in made.rows} == {SSGD, *GRAPHS}
    for name in ("fight_edge.png", "fight.png"):
        assert (scale.results / name).stat().st_size > 1000
    assert "ot run yet" not in page.path(scale).read_text(encoding="utf-8")
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
