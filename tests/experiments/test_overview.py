"""The page of all verdicts: what it makes of several cases, of few runs and of none."""

from pathlib import Path

import pytest

from experiments import overview_criteria
from experiments.common.scale import FULL, HERE, Scale
from experiments.common.statistics import difference, every
from experiments.fight import rows as fight
from experiments.fight.methods import COMPLETE
from experiments.fight.methods import SSGD as SYNCHRONOUS
from experiments.noise import rows as noise
from experiments.noise.arms import OWN, SSGD
from experiments.noise.rows import Row
from experiments.noise.size import FULL as NOISE
from experiments.overview_entries import PAPERS
from experiments.overview_picture import survival_curves
from experiments.reread import survivors
from tests.experiments.test_fight import edge_rows, step_at


@pytest.mark.parametrize(
    ("words", "word"),
    [(["yes", "yes"], "yes"), (["yes", "open"], "open"), (["open", "no"], "no"), (["no"], "no")],
)
def test_a_statement_about_several_cases_fails_where_one_does(words, word) -> None:
    assert every(words) == word


def test_every_line_leads_to_a_page() -> None:
    pages = {entry.page for entries in PAPERS.values() for entry in entries}
    assert all((HERE / f"{name}.md").exists() for name in pages)


def arms(folder: Path, runs: int) -> Scale:
    """A scale whose table of noise has so many runs of DPSGD, which survive, and of SSGD."""
    rows = [
        Row(key=f"{arm}{seed}", cell=NOISE.cells[0].name, arm=arm, seed=seed,
            steps=NOISE.steps, verdict="converged", survived=arm == OWN)
        for arm in (OWN, SSGD)
        for seed in NOISE.seeds[:runs]
    ]  # fmt: skip
    noise.write(rows, folder)
    return Scale(results=folder, page=folder / "README.md")


def test_an_arm_is_judged_when_all_its_runs_are_there(tmp_path: Path) -> None:
    half, whole = (arms(tmp_path / str(n), n) for n in (7, len(NOISE.seeds)))
    assert overview_criteria.rescued(OWN)(half) is None
    word, text = overview_criteria.rescued(OWN)(whole) or ("", "")
    assert (word, "20/20 - 0/20" in text) == ("yes", True)
    assert overview_criteria.rescued("isotropic")(whole) is None


def test_survivors_are_counted_at_each_rate() -> None:
    assert [cell[1:] for cell in survivors(FULL, "dpsgd")] == [(5, 5), (5, 5), (4, 5), (0, 5)]


def test_runs_that_all_ended_alike_are_compared_without_a_warning() -> None:
    found = difference([1.0, 2.0, 3.0], [0.1 + 0.2, 0.3], paired=False)
    assert found.value == pytest.approx(1.7)
    assert found.low == pytest.approx(1.7 - 4.3027 / 3**0.5, rel=1e-4)


def test_the_fight_is_shown_once_all_runs_of_both_methods_are_there(tmp_path: Path) -> None:
    scale = Scale(results=tmp_path, page=tmp_path / "README.md")
    rows = [*edge_rows(COMPLETE, step_at(1.5)), *edge_rows(SYNCHRONOUS, step_at(1.0))]
    judge = overview_criteria.by_fight("DPSGD with W = 11ᵀ/n bears")
    fight.write(rows[1:], tmp_path)
    assert judge(scale) is None
    assert set(survival_curves(scale)[COMPLETE]) == set(survivors(scale, "dpsgd"))
    fight.write(rows, tmp_path)
    assert (judge(scale) or ("", ""))[0] == "yes"
    assert [cell.runs for cell in survival_curves(scale)[SYNCHRONOUS]] == [20] * 7
