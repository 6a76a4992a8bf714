"""The rows of the DPSGD study, from traces that are made up, and the claims' verdicts on them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.common.scale import smoke
from experiments.dpsgd import claims
from experiments.dpsgd.rows import Row, error_at, kind, read_csv, write_csv
from gossip.report import Run, load_runs
from gossip.storage import folder as run_folder
from gossip.trace import Trace

STEPS = 40
FINE = np.linspace(2.3, 0.2, STEPS)
ERRORS = np.linspace(0.9, 0.05, 9)


def run(path: Path, losses: Any, errors: Any = ERRORS, final: float | None = 0.2) -> Run:
    """A run of 40 steps whose test error is evaluated every five."""
    run_folder.create(path)
    run_folder.write_config(path, {"algorithm": "dpsgd", "steps": STEPS})
    made = [{"step": t, "train_loss": loss} for t, loss in enumerate(losses)]
    for row in made[::5]:
        row["test_error"] = errors[row["step"] // 5]
    made.append({"step": len(losses), "test_error": errors[-1]})
    with Trace(path, ("train_loss", "test_error")) as trace:
        trace.append(made)
    run_folder.write_summary(
        path, {"verdict": "converged", "train_loss": final, "steps": len(losses)}
    )
    return load_runs([path])[0]


def with_spike(at: int) -> np.ndarray:
    losses = FINE.copy()
    losses[at] = 5.0
    return losses


CASES = {
    "a falling loss": ("smooth", FINE, ERRORS, 0.2),
    "a spike near the end": ("oscillating", with_spike(35), ERRORS, 0.2),
    "a spike long ago": ("smooth", with_spike(10), ERRORS, 0.2),
    "an error that has come back": ("oscillating", FINE, [*ERRORS[:-1], 0.6], 0.2),
    "an error that never fell": ("stuck", np.full(STEPS, 2.0), np.full(9, 0.79), 2.0),
    "a constant predictor": ("dead", np.full(STEPS, 2.3), np.full(9, 0.8865), 2.3006),
    "no number at the end": ("nan", [*FINE[:20], math.nan], ERRORS, None),
    "infinite at the end": ("nan", [*FINE[:-1], math.inf], ERRORS, None),
}


@pytest.mark.parametrize("case", CASES)
def test_kinds_of_runs(tmp_path: Path, case: str) -> None:
    wanted, losses, errors, final = CASES[case]
    assert kind(run(tmp_path / "run", losses, errors, final), STEPS, late=10) == wanted


def test_a_run_is_judged_as_it_was_at_the_fixed_time(tmp_path: Path) -> None:
    late_death = run(tmp_path / "run", [*FINE[:30], math.nan], ERRORS, None)
    assert kind(late_death, STEPS, late=10) == "nan"
    assert kind(late_death, 20, late=10) == "smooth"
    assert error_at(late_death, 20) == ERRORS[4]
    assert math.isnan(error_at(late_death, 22))


def row(**changes: Any) -> Row:
    made = Row(
        study="fig2",
        key="made-up",
        algorithm="dpsgd",
        topology="complete",
        learners=5,
        inputs="unit",
        alpha=1.0,
        seed=0,
        horizon=16,
        steps=16,
        verdict="converged",
        kind="smooth",
        kind_fixed="smooth",
        best_error=0.03,
        final_error=0.04,
        final_train_loss=0.1,
        error_at={12: 0.05},
    )
    return replace(made, **changes)


def test_rows_survive_a_csv_file(tmp_path: Path) -> None:
    rows = [row(key="a"), row(key="b", noise_std=0.1, kind="nan", error_at={12: math.nan})]
    write_csv(rows, tmp_path / "rows.csv")
    read = read_csv(tmp_path / "rows.csv")
    assert [str(r) for r in read] == [str(r) for r in rows]  # NaN is not equal to itself
    assert read_csv(tmp_path / "none.csv") == []


def test_a_claim_is_met_or_not_by_the_numbers_alone() -> None:
    scale = smoke(Path())
    ours, theirs = row(), row(algorithm="ssgd", final_error=0.5)
    assert claims.dpsgd_error([], scale) is None
    assert claims.dpsgd_error([ours], scale) == (False, "best 3.0; at the end 4.0")
    assert claims.dpsgd_error([row(best_error=0.021)], scale)[0]
    assert claims.ssgd_fails([ours, theirs], scale)[0]
    assert not claims.ssgd_fails([ours, theirs, row(algorithm="ssgd", seed=1)], scale)[0]
    assert not claims.dpsgd_is_stable([ours, row(seed=1, kind="oscillating")], scale)[0]


def test_a_tuned_baseline_that_wins_is_said_to_win() -> None:
    noisy = row(algorithm="ssgd-star", noise_mode="eval", noise_std=0.1, error_at={12: 0.03})
    holds, text = claims.ssgd_star_is_worse([row(), noisy], smoke(Path()))
    assert not holds
    assert text == "alpha 1, eval at 0.1: 3.0 against 5.0"


def star(std: float, loss: float, error: float) -> Row:
    return row(
        algorithm="ssgd-star",
        noise_mode="persist",
        noise_std=std,
        final_train_loss=loss,
        error_at={12: error},
    )


def test_noise_too_small_to_be_noise_is_ssgd_and_no_tuned_ssgd_star() -> None:
    """5e-6 has the lowest loss, as one of many draws of SSGD may; the best noise is 0.02."""
    rows = [row(), star(5e-6, 0.01, 0.03), star(0.02, 0.2, 0.06), star(0.1, 0.3, 0.09)]
    scale = smoke(Path())
    outcome = claims.ssgd_star_is_worse(rows, scale)
    assert outcome == (True, "alpha 1, persist at 0.02: 6.0 against 5.0")
    assert claims.tuning_is_sharp(rows, scale) == (True, "alpha 1, persist: 0.02 to 0.1")
    assert claims.ssgd_star_is_worse(rows[:2], scale) is None
    both = [*rows[:2], replace(rows[2], noise_mode="eval")]
    assert claims.ssgd_star_is_worse(both, scale) == (
        True,
        "alpha 1, eval at 0.02: 6.0 against 5.0; alpha 1, persist: no such sigma_0 on all seeds",
    )
