"""The study of the account: prediction from W, correlations, verdicts, and a smoke test."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import topologies
from experiments.account import claims, command, courses, page, rows
from experiments.account.groups import Measured
from experiments.account.measures import by_phase
from experiments.account.plan import runs
from experiments.account.rows import Row, read
from experiments.account.size import FULL, SMOKE
from experiments.account.spectrum import amplification
from experiments.common.correlation import partial_rank_correlation
from experiments.common.scale import smoke
from experiments.common.statistics import Criterion
from gossip.algorithms import flat
from tests.experiments.keeping import assert_table_is_enough


@pytest.mark.parametrize("name", ["ring", "hypercube", "star", "exponential"])
def test_spread_of_a_fixed_w_is_the_sum_over_its_spectrum(name: str) -> None:
    topology = topologies.build(name, 16)
    w = topology.matrix(0)
    closed = flat.awc(w)  # as in the monitor's sigma_w2_flat
    if name == "exponential":  # normal, not symmetric: the eigenvalues of W W' are |lambda|^2
        assert closed is None
        values = np.sort(np.abs(np.linalg.eigvalsh(_square(w.toarray()))))[:-1]
        closed = np.sum(1 / (1 - values)) / 16
    expected = closed * 16 / 15
    assert amplification(topology, range(2000, 2002)) == pytest.approx(expected, rel=1e-9)


def _square(w: np.ndarray) -> np.ndarray:
    return w @ w.T


def test_spread_of_complete_averaging_is_one_step_of_noise() -> None:
    assert amplification(topologies.build("complete", 7), range(1, 9)) == pytest.approx(1)


def test_spread_of_changing_w_is_that_of_simulated_noise() -> None:
    n, steps = 8, 400
    topology = topologies.build("one-peer-exponential", n)
    rng = np.random.default_rng(0)
    x, seen = np.zeros((n, 200)), []
    for t in range(steps):
        x = topology.matrix(t).toarray() @ x + rng.standard_normal(x.shape)
        seen.append(np.square(x - x.mean(axis=0)).sum() / x.shape[1])
    simulated = float(np.mean(seen[100:])) / (n - 1)
    assert amplification(topology, range(100, steps)) == pytest.approx(simulated, rel=0.02)


def test_partial_correlation_without_others_is_spearmans() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 50))
    assert partial_rank_correlation(a, a + b) == pytest.approx(spearmanr(a, a + b).statistic)


def test_courses_that_share_a_trend_alone_are_uncorrelated_given_it() -> None:
    rng = np.random.default_rng(1)
    t = np.arange(3000.0)
    a, b = (t / 1000 + rng.standard_normal(3000) for _ in range(2))
    assert partial_rank_correlation(a, b) > 0.3
    assert abs(partial_rank_correlation(a, b, t)) < 0.05
    assert partial_rank_correlation(a, -a + 0.1 * b, t) < -0.8
    bent = partial_rank_correlation(np.exp(a), b**3, np.exp(t / 100))
    assert bent == pytest.approx(partial_rank_correlation(a, b, t), abs=1e-12), "of ranks alone"


def test_nothing_is_correlated_with_what_is_given() -> None:
    t = np.arange(30.0)
    assert np.isnan(partial_rank_correlation(2 * t, t**2, t))


def test_phases_weigh_rates_by_the_square_of_g() -> None:
    columns = {name: np.array([1.0, 1.0]) for name in courses.COLUMNS}
    columns |= {"grad_norm": np.array([1.0, 3.0]), "alpha_e": np.array([2.0, 0.0])}
    found = by_phase(columns, alpha=2.0)
    assert found["rate"] == pytest.approx(2 / 10 / 2)
    assert found["rate_s"] == pytest.approx(0.5)
    assert found["shift"] == pytest.approx(0.1 - 0.5)
    assert found["gap"] == pytest.approx(1.0)
    assert found["hessian"] == 0


def of(values: list[float], *, verdict: str = "converged") -> Measured:
    rows = [
        Row(key=str(s), part="account", seed=s, verdict=verdict, alpha=1.0, early_rate=value)
        for s, value in zip(FULL.seeds, values, strict=True)
    ]
    return Measured(FULL, tuple(rows))


@pytest.mark.parametrize(
    ("values", "word"),
    [([0.5, 0.6, 0.5, 0.4, 0.5], "yes"), ([1.0, 1.1, 1.0, 1.0, 1.0], "no"),
     ([0.2, 1.4, 0.9, 0.3, 1.2], "open")],
)  # fmt: skip
def test_verdicts_are_yes_no_or_open(values: list[float], word: str) -> None:
    verdict = claims.number("early_rate", Criterion(high=0.9))(of(values))
    assert verdict is not None
    assert verdict[0] == word


def test_nothing_is_judged_before_all_runs_are_there_or_from_runs_that_died() -> None:
    judge = claims.number("early_rate", Criterion(high=0.9))
    made = of([0.5, 0.6, 0.5, 0.4, 0.5])
    assert judge(Measured(FULL, made.rows[1:])) is None
    dead = [replace(row, verdict="diverged") for row in made.rows[:3]]
    assert judge(Measured(FULL, (*dead, *made.rows[3:]))) is None
    one_dead = judge(Measured(FULL, (*dead[:1], *made.rows[1:])))
    assert one_dead is not None
    assert "(1 lost)" in one_dead[1]


def test_all_runs_of_the_spread_differ_from_complete_by_w_alone() -> None:
    made = runs("spread", FULL)
    assert len(made) == len(FULL.spread_alphas) * len(FULL.topologies) * len(FULL.spread_seeds)
    for alpha in FULL.spread_alphas:
        for seed in FULL.spread_seeds:
            some = [c for c in made.values() if (c.rate.lr, c.seed) == (alpha, seed)]
            assert len({(c.data, c.model, c.monitoring, c.steps) for c in some}) == 1


@pytest.mark.slow
def test_all_runs_are_made_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = Measured(SMOKE, tuple(read(scale)))
    assert page.missing(made) == []
    assert len(made.rows) == len(SMOKE.seeds) + 2 * 2 * len(SMOKE.spread_seeds)
    found = courses.read(scale.results)
    assert found.values["delta_s"].shape == (len(SMOKE.seeds), len(found.steps))
    split = found.values["delta_s"] + found.values["delta_cross"]
    assert np.isfinite(split).all()
    assert (scale.results / "account.png").stat().st_size > 1000
    assert "not run yet" not in page.path(scale).read_text(encoding="utf-8").lower()
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
