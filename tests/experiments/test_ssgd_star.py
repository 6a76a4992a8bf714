"""The search for SSGD*'s noise, on losses that are formulas."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.common.scale import FULL, smoke
from experiments.dpsgd import ssgd_star
from gossip.config import Config


def searched(loss: Callable[[float], float]) -> dict[float, float]:
    losses: dict[float, float] = {}
    while wanted := ssgd_star.next_exponents(losses, FULL):
        losses |= {exponent: loss(exponent) for exponent in wanted}
    return losses


@pytest.mark.parametrize("optimum", [-4.9, -2.3, -1.0, 0.4, 0.95])
def test_a_bisection_comes_close_to_the_lowest_loss(optimum: float) -> None:
    losses = searched(lambda exponent: abs(exponent - optimum))
    assert min(losses.values()) < 0.1
    assert len(losses) <= 13 <= 20
    assert min(losses) == -5
    assert max(losses) == 1


def test_a_bisection_lives_with_losses_that_are_no_numbers() -> None:
    losses = searched(lambda e: math.inf if e > -0.8 else 2 - 0.1 * e if e < -1.3 else 0.1)
    assert min(losses.values()) == 0.1


def test_after_the_bisection_the_grid_is_run_and_then_nothing(tmp_path: Path) -> None:
    scale, known = smoke(tmp_path), {}

    def loss_of(key: str, config: Config) -> float | None:
        return known.get(key)

    batches = []
    while missing := ssgd_star.pending(scale, 1.5, loss_of):
        batches.append(missing)
        for key, config in missing.items():
            known[key] = abs(math.log10(config.gossip.noise_std) + 2.2)
    assert [len(batch) for batch in batches] == [6, 4, 3]
    assert [key for key in batches[-1] if key.startswith("centered")] == [
        "centered-alpha1.5-std0.01-seed0"
    ]


def test_the_full_search_stays_within_the_papers_number_of_configurations() -> None:
    assert len(FULL.noise_exponents) + 2 * FULL.bisection_rounds <= 20


def test_a_dip_in_a_plateau_is_found() -> None:
    losses = searched(lambda e: 0.2 + abs(e + 1.1) if abs(e + 1.1) < 0.4 else 2.3)
    assert min(losses.values()) < 0.3
