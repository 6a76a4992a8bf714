"""Figure 2's study and the comparison of topologies, at the scale of a smoke test."""

import csv
from pathlib import Path

import pytest

from experiments import publish
from experiments.common.scale import smoke
from experiments.dpsgd import fig2, page, ssgd_star, topologies
from experiments.dpsgd.rows import read_csv


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smoke")
    options = ["--smoke", "--folder", str(path)]
    assert fig2.main([*options, "--parts", "unit", "noise"]) == 0
    assert topologies.main(options) == 0
    assert publish.main(options) == 0
    return path


def test_all_runs_are_made_and_what_is_not_is_named(folder: Path) -> None:
    scale = smoke(folder)
    rows = read_csv(scale.results / "fig2.csv")
    graphs = read_csv(scale.results / "topologies.csv")
    assert set(fig2.grid(scale, "unit")) <= {row.key for row in rows}
    assert {row.key for row in graphs} == set(topologies.runs(scale))
    assert {row.noise_mode for row in rows} == {"", "eval", "persist", "centered"}
    missing = page.missing(scale, rows, graphs)
    assert [line.split(":")[0] for line in missing] == [
        "the grid, standardised inputs",
        "SSGD* at alpha = 1",
    ]
    text = scale.page.with_name("dpsgd.md").read_text(encoding="utf-8")
    assert all(line in text for line in missing)


@pytest.mark.parametrize("name", ["README.md", "dpsgd.md"])
def test_the_pages_of_a_smoke_test_say_so(folder: Path, name: str) -> None:
    text = smoke(folder).page.with_name(name).read_text(encoding="utf-8")
    assert "not results" in text.splitlines()[0]


def test_tables_have_a_row_per_run_and_error_columns_by_step(folder: Path) -> None:
    with (smoke(folder).results / "fig2.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert {"error_at_4", "error_at_12", "kind", "verdict", "ratio_late"} <= set(table[0])
    assert len({(row["study"], row["key"]) for row in table}) == len(table)


def test_pictures_are_small_and_the_same_when_drawn_again(folder: Path) -> None:
    results = smoke(folder).results
    before = {path.name: path.read_bytes() for path in results.glob("*.png")}
    assert set(before) == {
        *("fig2a.png", "fig2b.png", "fig2_errors.png", "ssgd_star.png", "topologies.png"),
        "overview.png",
    }
    assert all(len(content) < 200_000 for content in before.values())
    assert publish.main(["--smoke", "--folder", str(folder)]) == 0
    assert {path.name: path.read_bytes() for path in results.glob("*.png")} == before


def test_nothing_is_run_twice(folder: Path) -> None:
    scale = smoke(folder)
    before = {path: path.stat().st_mtime_ns for path in scale.runs.glob("*/*/trace.arrows")}
    ssgd_star.run(scale, 1.5, jobs=1)
    fig2.run(scale, "unit", jobs=1)
    after = {path: path.stat().st_mtime_ns for path in scale.runs.glob("*/*/trace.arrows")}
    assert after == before


def test_a_page_without_runs_names_all_that_is_missing(tmp_path: Path) -> None:
    text = page.text(smoke(tmp_path))
    assert "the comparison of topologies: 10 of 10 runs" in text


def test_a_mistake_of_the_user_is_one_sentence(capsys: pytest.CaptureFixture) -> None:
    assert fig2.main(["--folder", "x"]) == 2
    assert "--folder is for --smoke" in capsys.readouterr().err
