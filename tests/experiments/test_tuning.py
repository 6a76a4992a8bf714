"""Grids that grow, and the LENA study's tables with every cell tuned."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.common.scale import smoke
from experiments.common.tuning import Grid
from experiments.lena import command, page
from experiments.lena.tuned import claims, plan, rows, section
from experiments.lena.tuned.groups import Measured
from experiments.lena.tuned.plan import FULL, METHODS, Cell, key
from experiments.lena.tuned.rows import Row
from tests.experiments.keeping import assert_table_is_enough

SHARED = plan.lena.FULL
GRID = Grid((0.1, 0.2, 0.4), further=3)


def valley(best: float) -> Callable[[float], float]:
    """Errors that rise on both sides of a rate."""
    return lambda rate: abs(math.log(rate / best))


@pytest.mark.parametrize(
    ("best", "ends"),
    [(0.2, (0.1, 0.4)), (0.4, (0.1, 0.8)), (0.1, (0.05, 0.4)), (0.03, (0.0125, 0.4)),
     (9.0, (0.1, 3.2)), (1e-9, (0.0125, 0.4))],
)  # fmt: skip
def test_a_grid_grows_until_the_error_rises_on_both_sides_or_it_may_no_more(best, ends):
    found = GRID.tried(valley(best))
    assert (found[0], found[-1]) == pytest.approx(ends)
    assert all(b == 2 * a for a, b in itertools.pairwise(found))
    is_inside = ends[0] < best < ends[1]
    assert GRID.is_at_end(valley(best)) != is_inside


def test_nothing_is_chosen_before_all_trials_are_there_or_where_none_has_an_error():
    assert GRID.chosen(lambda rate: None if rate == 0.4 else 1.0) is None
    assert GRID.chosen(lambda rate: math.nan) is None
    assert GRID.is_done(lambda rate: math.nan)
    assert not GRID.is_done(lambda rate: None if rate == 0.4 else math.nan)
    assert GRID.chosen({0.1: math.nan, 0.2: 0.3, 0.4: math.inf}.get) == 0.2
    assert GRID.chosen({0.05: 0.5, 0.1: 0.3, 0.2: 0.3, 0.4: 0.4}.get) == 0.1


def test_no_seed_that_tuned_anything_is_judged():
    assert FULL.tuning_seed not in FULL.seeds


def test_a_cell_has_trials_first_then_its_seeds_at_the_rate_they_choose():
    cell = FULL.cells[0]
    trials = plan.runs(cell, FULL, SHARED, lambda name: None)
    assert {config.seed for config in trials.values()} == {FULL.tuning_seed}
    best = METHODS[cell.method].rates[1]
    errors = dict.fromkeys(trials, 0.5) | {key(cell, best, FULL.tuning_seed, FULL): 0.1}
    whole = plan.runs(cell, FULL, SHARED, errors.get)
    judged = {c.rate.lr for c in whole.values() if c.seed in FULL.seeds}
    assert (len(whole) - len(trials), judged) == (len(FULL.seeds), {best})


def test_cells_differ_in_method_and_learners_alone_and_see_equally_many_samples():
    made = [
        next(iter(plan.runs(cell, FULL, SHARED, lambda name: None).values())) for cell in FULL.cells
    ]
    assert len({(c.data, c.model, c.epochs, c.seed, c.rate.decay) for c in made}) == 1
    named = {(c.rate.scaling, c.rate.warmup, c.gossip.learners) for c in made}
    assert len(named) == len(made) == len(FULL.cells)


def cell_rows(cell: Cell, error: float, *, lost: int = 0) -> list[Row]:
    """Trials with the middle rate best, and the judged runs about an error, some of them lost."""
    rates = METHODS[cell.method].grid(cell.n)

    def row(lr: float, seed: int, error: float, lost: bool = False) -> Row:
        return Row(key=key(cell, lr, seed, FULL), scaling="", warmup="", learners=cell.n, lr=lr,
                   seed=seed, steps=1, verdict="", lost=lost, validation_error=error,
                   test_error=error)  # fmt: skip

    trials = [row(lr, FULL.tuning_seed, 0.1 + (lr != rates[1])) for lr in rates]
    judged = [row(rates[1], s, error + 1e-4 * i, i < lost) for i, s in enumerate(FULL.seeds)]
    return [*trials, *judged]


@pytest.mark.parametrize(
    ("ours", "lost", "word"), [(0.09, 0, "yes"), (0.11, 0, "no"), (0.1, 0, "open"),
                               (0.09, 1, "open"), (0.09, 5, "no")],
)  # fmt: skip
def test_methods_are_compared_by_the_mean_over_n(ours, lost, word):
    made = [
        row
        for n in FULL.learners
        for name, error, dead in (("lena", ours, lost), ("adascale", 0.1, 0))
        for row in cell_rows(Cell(name, n), error, lost=dead)
    ]
    judge = claims.differs(claims.against("lena", "adascale"), claims.BETTER)
    verdict = judge(Measured(FULL, SHARED, made))
    assert verdict is not None
    assert verdict[0] == word
    assert judge(Measured(FULL, SHARED, made[:-1])) is None


def test_five_seeds_tell_what_the_page_says():
    seeds = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    errors = 0.12 + 0.0025 * seeds / seeds.std(ddof=1)
    rows = [
        replace(row, test_error=error)
        for name in ("lena", "adascale")
        for n in FULL.learners
        for row, error in zip(cell_rows(Cell(name, n), 0.12)[-5:], errors, strict=True)
    ]
    trials = [
        row
        for name in ("lena", "adascale")
        for n in FULL.learners
        for row in cell_rows(Cell(name, n), 0.12)[:-5]
    ]
    made = Measured(FULL, SHARED, [*trials, *rows])
    for place, half in ((None, 0.24), (0, 0.36)):
        found = made.contrast(claims.against("lena", "adascale", place)(FULL))
        assert found is not None
        assert found.high == pytest.approx(half, abs=0.005)


def test_growth_is_the_largest_n_less_the_smallest():
    made = [*cell_rows(Cell("lsw", 64), 0.13), *cell_rows(Cell("lsw", 16), 0.1)]
    found = Measured(FULL, SHARED, made).contrast(claims.growth("lsw")(FULL))
    assert found is not None
    assert found.value == pytest.approx(3.0)


@pytest.mark.slow
def test_the_tuned_tables_are_made_shown_and_gone_on_with(tmp_path: Path) -> None:
    arguments = ["--smoke", "--folder", str(tmp_path), "--jobs", "1", "--parts", "tuned"]
    assert command.main(arguments) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    made = section.measured(scale)
    assert section.missing(made) == []
    text = page.text(scale)
    assert "nan" not in text
    assert all(claim.measured(made) is not None for claim in claims.CLAIMS)
    assert_table_is_enough(
        tmp_path, rows.TABLE, lambda a: command.main([*a, "--parts", "tuned"]), command.publish
    )
