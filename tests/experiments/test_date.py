"""The DATE study: its plan, its criteria, and all of its code at a scale that means nothing."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.common.scale import smoke
from experiments.date import claims, command, groups, lipschitz, page, plan, rows
from experiments.date.groups import Measured
from experiments.date.methods import METHODS, TOGGLES, recipe
from experiments.date.plan import LIPSCHITZ, PARTS, STEP, Cell, chosen, key
from experiments.date.rows import Row
from experiments.date.size import FULL, SMOKE, Study
from gossip.config import Config
from gossip.config.presets import PRESETS
from gossip.data import DATASETS
from gossip.models import MODELS
from gossip.rates import Span
from gossip.study.rate_rule import budget, rule
from gossip.task.layers import Layer
from tests.experiments.keeping import assert_table_is_enough

CELLS = [cell for part in PARTS.values() for cell in part]
OURS, SMALL = Cell("lenet", "rmsprop-date"), Cell("lenet", "rmsprop-manual", is_large=False)


def middle(cell: Cell, size: Study) -> plan.ErrorOf:
    """Errors of trials of which the middle one is the best."""
    best = key(cell.tuned_at, plan.grid(cell, size).rates[1], size.tuning_seed, size)
    return lambda name: 0.1 if name == best else 0.2


def whole(cell: Cell, size: Study = FULL) -> dict[str, Config]:
    return plan.runs(cell, size, middle(cell, size))


def test_runs_of_a_task_see_equally_many_samples() -> None:
    for task in METHODS:
        made = [config for cell in CELLS if cell.task == task for config in whole(cell).values()]
        assert len({(config.epochs, config.data.validation) for config in made}) == 1
        assert made[0].epochs == FULL.task(task).epochs


def test_no_seed_that_tuned_anything_is_judged() -> None:
    assert FULL.tuning_seed not in {*FULL.seeds, *FULL.needle_seeds, *FULL.lipschitz.seeds}


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell_has_three_trials_a_factor_of_two_apart_and_all_its_seeds(cell: Cell) -> None:
    rates = plan.grid(cell, FULL).rates
    assert np.diff(np.log2(rates)) == pytest.approx([1, 1])
    trials = plan.runs(cell, FULL, lambda name: None)
    assert {config.seed for config in trials.values()} == {FULL.tuning_seed}
    assert len(whole(cell)) == len(rates) + len(cell.seeds(FULL))


def test_date_is_tuned_at_the_baseline_and_nowhere_else() -> None:
    for cell in CELLS:
        if cell.made.schedule == "date":
            assert not cell.tuned_at.is_large
            judged = [c for c in whole(cell).values() if c.seed != FULL.tuning_seed]
            assert {c.data.batch_size for c in judged} == {cell.batch(FULL)}


def test_the_parts_of_date_have_the_rate_of_the_manual_schedule() -> None:
    for cell in PARTS["toggles"]:
        assert chosen(cell, FULL, middle(cell, FULL)) == METHODS["lenet"]["rmsprop-manual"].rates[1]


def test_the_needles_rates_are_six_thousandths_apart() -> None:
    found = [chosen(cell, FULL, middle(cell, FULL)) for cell in PARTS["needle"]]
    assert found == pytest.approx([5 / STEP, 5, 5 * STEP])
    assert len({name for cell in PARTS["needle"] for name in whole(cell)}) == 3 + 3 * 8


def test_the_toggles_add_up_to_the_preset() -> None:
    assert recipe("ratio") == PRESETS["date"]["rate"] == recipe("date")
    assert [len(recipe(toggle)) for toggle in TOGGLES] == [0, 1, 2, 3, 4]


def test_legw_warms_up_over_the_baselines_updates_and_peaks_at_the_root() -> None:
    config = plan.config(Cell("lenet", "rmsprop-roller-coaster"), 5e-4, 0, FULL)
    length = budget(config, FULL.lenet.samples)
    made = rule(config.rate, length, (Layer("w", 0, 1, (1,)),))
    rates, state = [], made.init()
    for t in range(math.ceil(length.steps)):
        paced, _ = made.pace(Span(t, t + 1), None, state)
        rates.append(float(paced.lr))
        state = paced.memory
    updates = FULL.lenet.warmup * FULL.lenet.samples / FULL.lenet.baseline
    assert max(rates) == pytest.approx(5e-4 * math.sqrt(8), rel=0.02)
    assert 1 + rates.index(max(rates)) == math.floor(updates)


def test_the_curvature_is_measured_on_the_same_samples_at_the_root_of_the_batch() -> None:
    made = lipschitz.runs(FULL)
    assert len(made) == len(FULL.lipschitz.cells) * len(FULL.lipschitz.seeds)
    assert len({(c.rate, c.data.dataset, c.data.validation) for c in made.values()}) == 1
    assert {c.rate.scaling for c in made.values()} == {"sqrt"}


def row(name: str, cell: Cell, lr: float, seed: int, error: float, **changes: float) -> Row:
    return Row(key=name, task=cell.task, method=cell.method, batch=cell.batch(FULL), lr=lr,
               seed=seed, epochs=1.0, steps=1, verdict="", validation_error=error,
               test_error=error, **({"train_loss": 0.1} | changes))  # fmt: skip


def cell_rows(cell: Cell, errors: Sequence[float], lost: int = 0) -> list[Row]:
    """Trials with the middle rate best, and judged runs with these errors, some of them lost."""
    of, at = middle(cell, FULL), cell.tuned_at
    trials = [
        row(name, at, lr, FULL.tuning_seed, of(name) or 0.0)
        for lr in plan.grid(cell, FULL).rates
        for name in [key(at, lr, FULL.tuning_seed, FULL)]
    ]
    lr = chosen(cell, FULL, of) or 0.0
    judged = [
        row(key(cell, lr, seed, FULL), cell, lr, seed, error,
            train_loss=math.nan if i < lost else 0.1)
        for i, (seed, error) in enumerate(zip(cell.seeds(FULL), errors, strict=True))
    ]  # fmt: skip
    return [*trials, *judged]


def about(error: float, runs: int = 5) -> list[float]:
    return [error + 2e-4 * i for i in range(runs)]


@pytest.mark.parametrize(
    ("ours", "lost", "word"),
    [(0.009, 0, "yes"), (0.012, 0, "open"), (0.02, 0, "no"), (0.009, 1, "open"), (0.009, 5, "no")],
)
def test_without_loss_is_within_a_fifth_of_a_point(ours: float, lost: int, word: str) -> None:
    made = [*cell_rows(OURS, about(ours), lost), *cell_rows(SMALL, about(0.01))]
    claim = next(c for c in claims.CLAIMS if "RMSProp trains" in c.statement)
    verdict = claim.measured(Measured(FULL, made))
    assert verdict is not None
    assert verdict[0] == word
    assert claim.measured(Measured(FULL, made[:-1])) is None


@pytest.mark.parametrize("task", METHODS)
def test_a_task_has_a_model_that_takes_its_options_and_an_error_of_guessing(task: str) -> None:
    chosen, source = FULL.task(task), DATASETS[FULL.task(task).dataset]
    assert chosen.samples == source.num_train - FULL.validation
    options = {key: int(value) for key, _, value in (o.partition("=") for o in chosen.options)}
    with torch.device("meta"):
        assert MODELS[chosen.model](source.input_shape, 10, **options)
    assert task in groups.GUESSING


@pytest.mark.parametrize(("ours", "word"), [(4.0, "yes"), (4.045, "open"), (4.1, "no")])
def test_words_are_tuned_and_judged_by_the_loss(ours: float, word: str) -> None:
    large, small = Cell("words", "date"), Cell("words", "date", is_large=False)
    assert large.tuned_at == small

    def of_losses(cell: Cell, loss: float) -> list[Row]:
        """Errors tell the other way: nothing looks at them."""
        made = cell_rows(cell, about(9 - loss))
        seeds = {s: loss + 4e-3 * i for i, s in enumerate(FULL.seeds)} | {FULL.tuning_seed: 0.0}
        return [
            replace(r, test_loss=seeds[r.seed], validation_loss=r.validation_error,
                    validation_error=-r.validation_error)
            for r in made
        ]  # fmt: skip

    made = [*of_losses(small, 4.0), *of_losses(large, ours)]
    claim = next(c for c in claims.CLAIMS if "word LSTM" in c.statement)
    verdict = claim.measured(Measured(FULL, made))
    assert verdict is not None
    assert verdict[0] == word
    assert verdict[1].endswith("points of ln(perplexity)")
    rows_of_small = Measured(FULL, made).judged(small)
    assert groups.shown("words", groups.points(rows_of_small[0])) == pytest.approx(math.exp(4.0))
    for change in ({"train_loss": math.nan}, {"test_loss": 800.0}):  # exp(800) is no float
        lost = replace(rows_of_small[0], **change)
        assert groups.shown("words", groups.points(lost)) == pytest.approx(2_000)
    assert groups.shown("words", 100 * 800.0) == pytest.approx(2_000)


@pytest.mark.parametrize(
    ("off", "word"), [((0.02, 0.02), "no"), ((0.02, 0.05), "yes"), ((0.02, 0.03), "open")]
)
def test_a_needle_is_a_needle_by_the_numbers_alone(off: tuple[float, float], word: str) -> None:
    errors = dict(zip((-1, 1, 0), (*off, 0.02), strict=True))
    made = {
        r.key: r for cell in PARTS["needle"] for r in cell_rows(cell, about(errors[cell.shift], 8))
    }
    verdict = claims.has_a_needle(Measured(FULL, list(made.values())))
    assert verdict is not None
    assert verdict[0] == word
    assert claims.has_a_needle(Measured(FULL, list(made.values())[:-1])) is None


@pytest.mark.parametrize(
    ("values", "place", "is_inside"),
    [(np.r_[1:20, 20:0:-1], 17, True), (np.arange(40.0, 0, -1), 0, False),
     (np.arange(40.0), 37, False), (np.r_[np.arange(20.0), np.full(20, np.nan)], 17, False)],
)  # fmt: skip
def test_a_peak_is_one_that_l_rises_to_and_falls_from(values, place, is_inside) -> None:
    epochs = np.linspace(0, 4, len(values))
    found = rows.peak_of(epochs, values.astype(float))
    assert found["peak_is_inside"] == is_inside
    assert found["peak_epoch"] == pytest.approx(epochs[place + 1])
    assert rows.peak_of(epochs, np.full(len(values), np.nan)) == {}


def peaked(power: float, outside: int = 0) -> list[Row]:
    """Runs whose peak moves with a power of the batch; some of them have none inside."""
    of, rng = FULL.lipschitz, np.random.default_rng(0)
    cells = [(batch, seed) for batch, *_ in of.cells for seed in of.seeds]
    return [
        Row(key=lipschitz.key(batch, seed, FULL), task=LIPSCHITZ, method="momentum", batch=batch,
            lr=of.lr, seed=seed, epochs=1.0, steps=1, verdict="", train_loss=0.1,
            peak_epoch=float((batch / 256) ** power * np.exp(rng.normal(0, 0.2))),
            peak_is_inside=i >= outside)
        for i, (batch, seed) in enumerate(cells)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("power", "outside", "words"),
    [(1.0, 0, ("yes", "yes")), (0.4, 2, ("yes", "no")), (-0.5, 0, ("no", "no")),
     (1.0, 3, ("open", "open"))],
)  # fmt: skip
def test_the_peak_is_later_or_in_proportion_by_its_elasticity(power, outside, words) -> None:
    made = Measured(FULL, peaked(power, outside))
    judges = claims.peaks(claims.ABOVE), claims.peaks(claims.PROPORTION)
    assert tuple((judge(made) or ("", ""))[0] for judge in judges) == words
    assert judges[0](Measured(FULL, made.rows[:-1])) is None


def test_an_elasticity_covers_the_power_it_was_drawn_with() -> None:
    rng, x, hits = np.random.default_rng(1), np.repeat(np.log([256, 1024, 4096, 8192]), 8), 0
    for _ in range(1000):
        found = groups.slope(x.tolist(), (0.7 * x + rng.normal(0, 0.3, len(x))).tolist())
        hits += found.low <= 0.7 <= found.high
    assert 0.93 < hits / 1000 < 0.97


@pytest.mark.slow
def test_runs_are_made_shown_and_gone_on_with(tmp_path: Path) -> None:
    """The other parts have cells of the same kind: 130 runs in place of these 30."""
    parts = "lipschitz", "lenet", "needle"

    def main(words: Sequence[str]) -> int:
        return command.main([*words, "--parts", *parts])

    assert main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    made = page.measured(scale)
    assert not [line for line in page.missing(made) if line.startswith(parts)]
    assert all(math.isfinite(r.peak_epoch) for r in made.rows if r.task == LIPSCHITZ)
    assert all(
        math.isfinite(r.validation_loss + r.test_loss) for r in made.rows if r.task == "lenet"
    )
    verdicts = {claim.statement: claim.measured(made) for claim in claims.CLAIMS}
    for words in ("DATE on RMSProp", "The local", "... in proportion", "LARS's", "Layer ratios"):
        assert [v for said, v in verdicts.items() if said.startswith(words)] != [None], words
    text = page.path(scale).read_text(encoding="utf-8")
    assert "not results" in text.splitlines()[0]
    for name in ("date.png", "date_lipschitz.png"):
        assert f"results/{name}" in text
        assert (scale.results / name).stat().st_size < 200_000
    assert_table_is_enough(tmp_path, rows.TABLE, main, command.publish)


def test_a_page_without_runs_names_all_that_is_missing(tmp_path: Path) -> None:
    text = page.text(smoke(tmp_path))
    assert all(f"\n- {part}: " in text for part in PARTS)
    assert page.measured(smoke(tmp_path)).size is SMOKE
