"""The study of nets: its plan, its verdicts, and all of its code on a smoke test."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.common.scale import smoke
from experiments.nets import claims, command, images, page, rows
from experiments.nets.groups import Measured
from experiments.nets.plan import (
    DPSGD,
    ONE,
    PAIR,
    PARTS,
    SSGD,
    STAR,
    Cell,
    chosen_std,
    config,
    edge,
    ladder,
    noise_is_lost,
    runs,
    stds,
)  # fmt: skip
from experiments.nets.rows import Row, names
from experiments.nets.size import FULL, SMOKE, SPEECH, Task
from gossip.config import Config
from tests.experiments.keeping import assert_table_is_enough

TASK = FULL.tasks[0]
Loss = Callable[[str, float, float, int], float]
"""Test and validation loss of an arm at a rate, a noise and a seed; NaN did not survive."""


def row(cell: Cell, seed: int, loss: Loss) -> Row:
    """A row with the loss that is given for it, and a test error of a tenth of it."""
    found = loss(cell.arm, cell.alpha, cell.std, seed)
    return Row(
        key=cell.key(seed), task=cell.task.name, arm=cell.arm, batch=cell.batch, alpha=cell.alpha,
        std=cell.std, seed=seed, steps=1, verdict="", survived=found < cell.task.failed,
        validation_loss=found, test_loss=found, test_error=found / 10,
    )  # fmt: skip


def grown(loss: Loss) -> Measured:
    """A whole study, made run after run as its plan grows."""
    found: dict[str, Row] = {}

    def wanted() -> dict[str, Config]:
        made = [runs(task, part, FULL, found.get) for part in PARTS for task in FULL.tasks]
        return {key: config for each in made for key, config in each.items()}

    while missing := wanted().keys() - found.keys():
        for key in missing:
            found[key] = row(parsed(key), int(key.rpartition("seed")[2]), loss)
    return Measured(FULL, tuple(found.values()))


def parsed(key: str) -> Cell:
    """The cell of a run's name."""
    name, arm, *words = key.split("-")
    (task,) = (task for task in FULL.tasks if task.name == name)
    number: dict[str, Any] = {"std": 0.0} | {
        word.rstrip("0123456789.e"): float(word.lstrip("abcdefghijklmnopqrstuvwxyz"))
        for word in words[:-1]
    }
    return Cell(task, arm, int(number["batch"]), number["alpha"], number["std"])


def edge_at(rate: float) -> Loss:
    """SSGD fails from a rate on; DPSGD never; noise is best at 0.03 and fails otherwise."""

    def loss(arm: str, alpha: float, std: float, seed: int) -> float:
        spread = 0.01 * (seed % 3)
        if arm == STAR:
            return 1.1 + spread + abs(math.log(std / 0.03))
        fails = arm == SSGD and alpha >= rate
        return math.nan if fails else 1.0 + spread + 0.5 * (arm == SSGD)

    return loss


def test_a_pixel_is_the_mean_of_four() -> None:
    image = np.array([[0, 4, 10, 10], [8, 0, 30, 30]], np.uint8).reshape(1, 1, 2, 4)
    assert images.pooled(image).tolist() == [[[[3, 20]]]]


def test_methods_have_the_same_data_and_recipe() -> None:
    ours, theirs, star = (
        config(Cell(TASK, arm, TASK.batch, 0.8), 601, FULL) for arm in (DPSGD, SSGD, STAR)
    )
    for name in ("data", "model", "rate", "seed", "steps", "monitoring"):
        assert getattr(ours, name) == getattr(theirs, name) == getattr(star, name)
    one = config(Cell(TASK, ONE, TASK.small_batch, 0.1), 601, FULL)
    assert one.steps * one.data.batch_size == ours.steps * ours.data.batch_size * FULL.learners


@pytest.mark.parametrize("times", [0.25, 1.0, 4.0])
def test_the_edge_is_the_least_rate_at_which_ssgd_fails(times: float) -> None:
    """Found from below and from above; the edge of a net that fails nowhere is the last tried."""
    loss = edge_at(TASK.alpha * times)
    made = grown(loss)
    assert edge(TASK, FULL, made.known) == TASK.alpha * times
    tried = ladder(TASK, FULL, made.known)
    assert min(tried) <= TASK.alpha * times <= max(tried)
    nowhere = grown(edge_at(math.inf))
    assert edge(TASK, FULL, nowhere.known) == TASK.alpha * 2**FULL.further


def test_nothing_is_planned_before_the_edge_is_known() -> None:
    def unknown(name: str) -> None:
        return None

    assert list(runs(TASK, PAIR, FULL, unknown)) == [
        Cell(TASK, SSGD, TASK.batch, TASK.alpha).key(FULL.tuning_seed)
    ]
    assert not names(SMOKE, unknown)[0].endswith(tuple(f"seed{s}" for s in SMOKE.seeds))


def test_noise_is_tuned_on_the_grid_and_beside_its_best_on_a_seed_that_is_not_judged() -> None:
    made = grown(edge_at(0.8))
    tried = stds(TASK, FULL, made.known)
    assert tried[: len(FULL.stds)] == list(FULL.stds)
    assert tried[len(FULL.stds) :] == pytest.approx([math.sqrt(0.0003), math.sqrt(0.003)])
    assert chosen_std(TASK, FULL, made.known) == 0.03
    assert FULL.tuning_seed not in FULL.seeds
    assert {r.std for r in made.at((TASK, STAR, 0))} == {0.03}


def test_no_noise_is_chosen_where_all_trials_are_lost() -> None:
    own = edge_at(0.8)
    made = grown(lambda arm, *words: math.nan if arm == STAR else own(arm, *words))
    tried = [row for row in made.rows if row.arm == STAR]
    assert len(tried) == len(FULL.stds) * len(FULL.tasks)
    assert chosen_std(TASK, FULL, made.known) is None
    assert made.at((TASK, STAR, 0)) == []
    assert page.left(made, TASK)[STAR] == 0
    assert noise_is_lost(TASK, FULL, made.known)
    assert not noise_is_lost(TASK, FULL, grown(own).known)


def test_batch_and_rate_are_halved_together_on_speech() -> None:
    (speech,) = (task for task in FULL.tasks if task.recipe == SPEECH)
    assert [speech.cell(8.0, k) for k in range(speech.cells)] == [
        (512, 8.0),
        (256, 4.0),
        (128, 2.0),
    ]
    assert [TASK.cell(8.0, k) for k in range(TASK.cells)] == [(TASK.batch, 8.0), (TASK.batch, 4.0)]
    samples = {speech.steps(batch) * batch for batch, _ in map(partial(speech.cell, 8.0), range(3))}
    assert samples == {speech.samples}


def verdicts(made: Measured, task: Task) -> list[str | bool | None]:
    found = [claim.measured(made) for claim in claims.of_task(task)]
    return [verdict and verdict[0] for verdict in found]


def test_verdicts_follow_survival_and_errors() -> None:
    """At the edge SSGD dies and DPSGD and noise live; below it DPSGD's error is 5 points less."""
    made = grown(edge_at(0.8))
    assert verdicts(made, TASK) == ["yes", "open", "yes", "yes", "open", "yes", "yes"]
    together = [claim.measured(made) for claim in claims.together(FULL)]
    assert [verdict and verdict[0] for verdict in together[:3]] == ["yes", "open", "yes"]


def test_who_lost_more_runs_is_not_better() -> None:
    def loss(arm: str, alpha: float, std: float, seed: int) -> float:
        plain = edge_at(0.8)(arm, alpha, std, seed)
        return math.nan if (arm, alpha, seed) == (DPSGD, 0.4, FULL.seeds[0]) else plain

    made = grown(loss)
    assert verdicts(made, TASK)[2] == "open"
    fewer = Measured(FULL, [r for r in made.rows if r.key != made.at((TASK, DPSGD, 1))[-1].key])
    assert verdicts(fewer, TASK)[:3] == [None, "open", None]


@pytest.mark.slow
def test_all_runs_are_made_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert page.missing(made) == []
    assert {r.key for r in made.rows} == set(names(SMOKE, made.known))
    assert {r.arm for r in made.rows} == {SSGD, DPSGD, STAR, ONE}
    assert (scale.results / "nets.png").stat().st_size > 1000
    assert "ot run yet" not in page.path(scale).read_text(encoding="utf-8")
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
