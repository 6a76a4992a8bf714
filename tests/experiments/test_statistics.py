"""Known answers first: coverage of the intervals, and what 20 runs can decide."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from experiments.common import statistics, survival
from experiments.common.statistics import Criterion, Estimate
from experiments.common.survival import Cell
from gossip.errors import UserError

RUNS = 20
"""Seeds of a cell in the studies that these are for."""


def outcomes(p: float, runs: int = RUNS) -> np.ndarray:
    """Probability of each number of survivors."""
    return stats.binom.pmf(np.arange(runs + 1), runs, p)


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8, 0.95])
def test_wilsons_interval_covers_the_truth_by_exact_enumeration(p):
    found = [statistics.share(k, RUNS) for k in range(RUNS + 1)]
    covered = sum(w for w, e in zip(outcomes(p), found, strict=True) if e.low <= p <= e.high)
    assert 0.92 <= covered <= 0.99


def test_wilsons_interval_is_the_root_of_its_equation():
    """|p - k/n| = z sqrt(p (1 - p) / n) at both ends."""
    z = stats.norm.ppf(0.975)
    for k in (3, 10, 20):
        found = statistics.share(k, RUNS)
        for end in (found.low, found.high):
            left = abs(end - k / RUNS)
            assert left == pytest.approx(z * math.sqrt(end * (1 - end) / RUNS), abs=1e-12)


def decided(p: float, q: float, criterion: Criterion) -> dict[str, float]:
    """Probability of each verdict on the difference of two shares of 20 runs, and of coverage."""
    found = dict.fromkeys(["yes", "no", "open", "covered"], 0.0)
    weights = np.outer(outcomes(p), outcomes(q))
    for k, m in itertools.product(range(RUNS + 1), repeat=2):
        estimate = difference(k, m)
        found[criterion.verdict(estimate)] += weights[k, m]
        found["covered"] += weights[k, m] * (estimate.low <= p - q <= estimate.high)
    return found


@cache
def difference(k: int, m: int) -> Estimate:
    """Of k and of m runs in twenty."""
    return statistics.share_difference((k, RUNS), (m, RUNS))


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.9, 0.4), (0.95, 0.8), (0.3, 0.05)])
def test_newcombes_interval_covers_the_difference(p, q):
    assert 0.93 <= decided(p, q, Criterion())["covered"] <= 0.99


def test_strata_kept_apart_cover_their_mean_difference_and_are_narrower_where_they_differ():
    """At one rate all live, at one all of the second die, at one all die, five runs each."""
    shares, runs, rng = ((1.0, 1.0), (0.9, 0.1), (0.0, 0.0)), 5, np.random.default_rng(0)
    truth, hits, studies = sum(p - q for p, q in shares) / 3, 0, 2000
    for _ in range(studies):
        drawn = rng.binomial(runs, shares)
        found = statistics.stratified_difference([((a, runs), (b, runs)) for a, b in drawn])
        hits += found.low <= truth <= found.high
    assert hits / studies > 0.94
    pairs = [((5, 5), (5, 5)), ((5, 5), (0, 5)), ((0, 5), (0, 5))]
    apart = statistics.stratified_difference(pairs)
    together = statistics.share_difference((10, 15), (5, 15))
    assert apart.value == pytest.approx(together.value)
    assert together.low < 0 < apart.low


@pytest.mark.parametrize("strata", [1, 4])
def test_strata_that_are_alike_narrow_newcombes_interval_by_the_root_of_their_number(strata):
    pair = (14, RUNS), (3, RUNS)
    value, low, high = statistics.share_difference(*pair)
    ends = (value + (end - value) / math.sqrt(strata) for end in (low, high))
    assert statistics.stratified_difference([pair] * strata) == pytest.approx((value, *ends))


def test_twenty_runs_decide_about_half_and_not_about_a_fifth():
    better = Criterion(low=0.0)
    assert decided(0.9, 0.4, better)["yes"] > 0.9
    assert decided(0.9, 0.4, better)["no"] < 1e-4
    assert 0.4 < decided(0.8, 0.5, better)["yes"] < 0.6
    assert decided(0.6, 0.4, better)["open"] > 0.7
    # No effect: each side is wrong as often as the level allows.
    none = decided(0.5, 0.5, better)
    assert none["yes"] == pytest.approx(none["no"])
    assert 0.015 < none["yes"] < 0.04


def test_newcombes_published_example():
    """56/70 against 48/80: 0.2 [0.0524, 0.3339]."""
    found = statistics.share_difference((56, 70), (48, 80))
    assert found == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_differences_cover_the_truth(paired):
    """500 studies of 10 runs; pairs share most of their noise, which only pairing takes out."""
    studies = 500
    rng, truth, hits, widths = np.random.default_rng(1), 0.7, 0, []
    for _ in range(studies):
        common = rng.standard_normal(10)
        a, b = common + truth + 0.3 * rng.standard_normal(10), common + rng.standard_normal(10)
        found = statistics.difference(a, b if paired else rng.permutation(b), paired=paired)
        hits += found.low <= truth <= found.high
        widths.append(found.high - found.low)
    # Not paired it is too wide, as the noise in common is there twice.
    assert 0.93 < hits / studies < 0.97 if paired else hits / studies > 0.96
    assert (np.mean(widths) < 1.6) == paired


def test_differences_are_scipys_tests():
    a, b = np.random.default_rng(0).gamma(2.0, size=(2, 15))
    welch = statistics.difference(a, b, paired=False)
    ends = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert welch == pytest.approx((a.mean() - b.mean(), *ends))
    student = statistics.difference(a, b, paired=True)
    assert student == pytest.approx(
        (a.mean() - b.mean(), *stats.ttest_rel(a, b).confidence_interval())
    )


@pytest.mark.parametrize("paired", [True, False])
def test_a_bootstrap_is_near_student_where_errors_are_normal(paired):
    a, b = np.random.default_rng(3).standard_normal((2, 60))
    a += 0.5
    found = statistics.bootstrap_difference(a, b, paired=paired)
    assert found == pytest.approx(statistics.difference(a, b, paired=paired), abs=0.06)
    assert found == statistics.bootstrap_difference(a, b, paired=paired), "the same when repeated"


@pytest.mark.parametrize(
    ("criterion", "estimate", "word"),
    [
        (Criterion(low=0), Estimate(2, 1, 3), "yes"),
        (Criterion(low=0), Estimate(1, -1, 3), "open"),
        (Criterion(low=0), Estimate(-2, -3, -1), "no"),
        (Criterion(high=0), Estimate(-2, -3, -1), "yes"),
        (Criterion(-0.5, 0.5), Estimate(0, -0.4, 0.4), "yes"),
        (Criterion(-0.5, 0.5), Estimate(0, -0.6, 0.4), "open"),
        (Criterion(-0.5, 0.5), Estimate(2, 1, 3), "no"),
        (Criterion(low=0), Estimate(0, 0, 0), "no"),
    ],
)
def test_a_verdict_is_open_where_the_interval_meets_the_bound(criterion, estimate, word):
    assert criterion.verdict(estimate) == word


def test_runs_that_are_all_the_same_have_an_interval_of_no_width():
    assert statistics.difference([2.0, 2.0], [1.0, 1.0], paired=False) == (1, 1, 1)
    assert statistics.difference([2.0, 3.0], [1.0, 2.0], paired=True) == (1, 1, 1)
    assert statistics.bootstrap_difference([2.0, 3.0], [1.0, 2.0], paired=True) == (1, 1, 1)


GRID = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


def cells(counts, runs: int = RUNS) -> list[Cell]:
    return [Cell(alpha, int(k), runs) for alpha, k in zip(GRID, counts, strict=True)]


def test_a_curve_of_many_runs_is_the_one_they_were_drawn_from():
    truth = survival.Curve(2.0, -8.0)
    runs = 10**6
    found = survival.fit(cells(np.round(runs * truth.at(np.array(GRID))), runs))
    assert (found.intercept, found.slope) == pytest.approx((2.0, -8.0), rel=1e-3)
    assert found.alpha_50 == pytest.approx(math.exp(0.25), rel=1e-4)


def test_firths_fit_is_a_maximum_of_the_penalised_likelihood():
    """Also where all runs below some rate survive and all above die."""
    for counts in ([20, 19, 16, 9, 4, 1, 0], [20, 20, 20, 0, 0, 0, 0]):
        data = cells(counts)
        curve = survival.fit(data)

        def penalised(a, b, data=data):
            x, k, n = np.log([c.alpha for c in data]), *np.array([c[1:] for c in data]).T
            p = survival.Curve(a, b).at(np.exp(x))
            z = np.stack([np.ones_like(x), x])
            information = (z * n * p * (1 - p)) @ z.T
            likelihood = stats.binom.logpmf(k, n, p).sum()
            return likelihood + np.log(np.linalg.det(information)) / 2

        best = penalised(curve.intercept, curve.slope)
        for da, db in itertools.product((-0.02, 0, 0.02), (-0.1, 0, 0.1)):
            if da or db:
                assert penalised(curve.intercept + da, curve.slope + db) < best


def test_alpha_50_is_mirrored_with_its_data():
    """Survivors counted as dead, and 1/alpha for alpha: the same half-way point."""
    data = cells([20, 18, 15, 9, 4, 1, 0])
    mirrored = [Cell(1 / c.alpha, c.runs - c.survived, c.runs) for c in data]
    assert survival.fit(mirrored).alpha_50 == pytest.approx(1 / survival.fit(data).alpha_50)


def test_the_interval_of_alpha_50_covers_the_truth():
    truth, rng = survival.Curve(1.5, -6.0), np.random.default_rng(5)
    studies, hits = 100, 0
    for study in range(studies):
        data = cells(rng.binomial(RUNS, truth.at(np.array(GRID))))
        found = survival.alpha_50(data, seed=study)
        hits += found.low <= truth.alpha_50 <= found.high
    assert stats.binom.cdf(hits, studies, 0.95) > 1e-3, hits
    assert found.high / found.low < 1.3, "20 seeds at 7 rates tell alpha_50 to some 10 %"


def test_a_grid_that_does_not_reach_both_sides_has_no_alpha_50():
    for counts in ([20, 20, 20, 19, 18, 18, 15], [5, 4, 3, 2, 1, 0, 0]):
        assert not survival.both_sides(cells(counts))
        with pytest.raises(UserError, match="extend the grid"):
            survival.alpha_50(cells(counts))


@pytest.mark.parametrize(
    ("refused", "complaint"),
    [
        (lambda: statistics.share(3, 2), "3 of 2"),
        (lambda: statistics.share(0, 0), "0 of 0"),
        (lambda: statistics.mean([1.0]), "at least 2"),
        (lambda: statistics.mean([1.0, math.nan]), "runs that died"),
        (lambda: statistics.difference([1.0, 2.0], [1.0, 2.0, 3.0], paired=True), "one partner"),
        (lambda: survival.fit([Cell(1.0, 3, 5)]), "two learning rates"),
        (lambda: survival.fit([Cell(1.0, 3, 5), Cell(2.0, 6, 5)]), "cannot be"),
    ],
)
def test_what_has_no_estimate_is_refused(refused, complaint):
    with pytest.raises(UserError, match=complaint):
        refused()


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
def test_the_interval_of_an_auc_covers_that_of_two_normals(shift):
    """Of N(shift, 1) against N(0, 1) it is Phi(shift / sqrt 2)."""
    truth, rng, draws = stats.norm.cdf(shift / math.sqrt(2)), np.random.default_rng(0), 400
    found = [
        statistics.auc(rng.standard_normal(12) + shift, rng.standard_normal(20))
        for _ in range(draws)
    ]
    covered = sum(each.low <= truth <= each.high for each in found) / draws
    assert 0.92 <= covered <= 0.99
    assert np.mean([each.value for each in found]) == pytest.approx(truth, abs=0.02)


def test_the_interval_of_an_auc_is_the_root_of_its_equation():
    """With Hanley and McNeil's variance, both samples taken as large as their mean size."""
    m, n, z = 5, 3, stats.norm.ppf(0.975)
    found, others = statistics.auc([1, 4, 5, 6, 7], [2, 3, 4.5]), (m + n) / 2 - 1
    for end in (found.low, found.high):
        both, shared = end / (2 - end) - end**2, 2 * end**2 / (1 + end) - end**2
        variance = (end * (1 - end) + others * (both + shared)) / (m * n)
        assert abs(end - found.value) == pytest.approx(z * math.sqrt(variance), abs=1e-9)


def test_an_auc_counts_pairs_and_has_an_interval_where_all_are_told_apart():
    assert statistics.auc([1, 2, 3], [1, 2, 3]).value == 0.5
    assert statistics.auc([math.inf, 2], [2, 0]).value == (2 + 1.5) / 4
    apart, reverse = statistics.auc([3, 4, 5], [1, 2]), statistics.auc([1, 2], [3, 4, 5])
    assert (apart.value, apart.high, reverse.value, reverse.low) == (1, 1, 0, 0)
    assert 0.3 < apart.low < 0.5
    assert reverse.high == pytest.approx(1 - apart.low)
    with pytest.raises(UserError, match="NaN"):
        statistics.auc([math.nan], [1])
