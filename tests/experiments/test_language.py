"""The study of language: its plan, its verdicts, and all of its code on a smoke test."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.common.scale import smoke
from experiments.language import claims, command, page, rows
from experiments.language.groups import Measured
from experiments.language.plan import ARMS, DPSGD, SSGD, Cell, cells, config, runs
from experiments.language.rows import Row
from experiments.language.size import FULL, SMOKE
from tests.experiments.keeping import assert_table_is_enough


def measured(loss: Callable[[Cell, int], float]) -> Measured:
    """A study with the test losses that are given for each cell and seed; NaN did not survive."""
    made = [
        Row(
            key=cell.key(seed), arm=cell.arm, warmup=cell.warmup, peak=cell.peak, seed=seed,
            steps=FULL.steps, verdict="", survived=loss(cell, seed) < FULL.failed,
            test_loss=loss(cell, seed),
        )
        for cell in cells(FULL)
        for seed in FULL.seeds
    ]  # fmt: skip
    return Measured(FULL, tuple(made))


def test_arms_differ_in_their_algorithm_alone() -> None:
    assert len(runs(FULL)) == len(ARMS) * len(FULL.warmups) * len(FULL.peaks) * len(FULL.seeds)
    a, b = (config(Cell(arm, 15, 0.1), 500, FULL) for arm in ARMS)
    assert (a.data, a.model, a.rate, a.seed, a.steps) == (b.data, b.model, b.rate, b.seed, b.steps)
    assert a.gossip == b.gossip


@pytest.mark.parametrize(("bears", "word"), [(4, "yes"), (2, "open"), (0, "no")])
def test_who_bears_higher_peaks_survives_more(bears: int, word: str) -> None:
    """SSGD survives the two lower peaks, DPSGD so many."""

    def loss(cell: Cell, seed: int) -> float:
        borne = bears if cell.arm == DPSGD else 2
        return 2.0 if FULL.peaks.index(cell.peak) < borne else math.nan

    verdict = claims.survives_more(0)(measured(loss))
    assert verdict is not None
    assert verdict[0] == word


def test_the_best_peak_is_chosen_on_the_first_seed_which_is_not_judged() -> None:
    first = FULL.seeds[0]

    def loss(cell: Cell, seed: int) -> float:
        best = FULL.peaks[1] if seed == first else FULL.peaks[2]
        noise = 0.01 * (seed % 3)
        return 1.0 + noise if cell.peak == best else 2.0 + noise - 0.3 * (cell.arm == DPSGD)

    made, warmup = measured(loss), FULL.warmups[0]
    found = made.best(SSGD, warmup)
    assert found == [2.0 + 0.01 * (seed % 3) for seed in FULL.seeds[1:]]
    gain = made.gain(DPSGD, SSGD, warmup)
    assert gain is not None
    assert gain.value == pytest.approx(-0.3)
    verdict = claims.best_is_better(0)(made)
    assert verdict is not None
    assert verdict[0] == "yes"


def test_nothing_is_judged_before_all_runs_are_there() -> None:
    made = measured(lambda cell, seed: 2.0)
    half = Measured(FULL, made.rows[1:])  # of the shortest warm-up
    assert claims.survives_more(-1)(half) is None
    assert claims.survives_more(0)(half) is not None


@pytest.mark.slow
def test_all_runs_are_made_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert len(made.rows) == len(runs(SMOKE))
    assert page.missing(made) == []
    assert (scale.results / "language.png").stat().st_size > 1000
    assert "Not run yet" not in page.path(scale).read_text(encoding="utf-8")
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
