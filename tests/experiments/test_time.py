"""The study of time: its rows, its fit to measured steps, its comparisons, and a smoke test."""

import math
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from experiments.common import hosts, tables
from experiments.common.scale import FULL, Scale, smoke
from experiments.time import (
    by_simgrid,
    command,
    measured,
    netns,
    page,
    papers,
    rows,
    to_target,
)
from experiments.time.claims import CLAIMS
from experiments.time.measured import Cell, Constants
from experiments.time.plan import PARTS
from experiments.time.rows import of
from experiments.time.simulated import CHOICES, closed
from experiments.time.size import MEASURED, SMOKE

SIMGRID = by_simgrid.interpreter() is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("time")
    assert command.main(["--smoke", "--folder", str(path)]) == 0
    command.publish(smoke(path))
    page.write(smoke(path))
    return path


def test_all_parts_are_made_and_shown(folder: Path) -> None:
    scale = smoke(folder)
    made = {row.part for row in rows.read(scale)}
    assert made == set(PARTS) - {"measured", "real"}  # of tables that other commands write
    text = page.path(scale).read_text(encoding="utf-8")
    assert text == page.text(scale)
    assert "- measured: no row" in text
    assert "not results" in text.splitlines()[0]
    assert not {"nan", "inf"} & set(text.split())
    names = {path.name for path in scale.results.iterdir()}
    assert names == {"time.csv", "time_stragglers.png", "time_phase.png"}


def test_a_part_that_is_made_again_leaves_the_others(folder: Path) -> None:
    scale = smoke(folder)
    before = rows.path(scale).read_text()
    command.run(scale, "closed")
    assert rows.path(scale).read_text() == before


def test_rows_come_back_from_the_file(tmp_path: Path) -> None:
    scale = smoke(tmp_path)
    made = list(papers.rows(SMOKE))
    rows.write(made, scale)
    read = rows.read(scale)
    assert [row.value for row in read] == pytest.approx([row.value for row in made], rel=1e-12)
    assert repr([replace(a, value=0, reference=0) for a in read]) == repr(
        [replace(b, value=0, reference=0) for b in made]
    )


def test_published_numbers_come_out() -> None:
    made = list(papers.rows(SMOKE))
    for table, numbers in (("adadamp", 15), ("adadamp-median", 21), ("adadamp-fig7", 5)):
        assert len(of(made, table)) == numbers
        assert max(abs(row.error) for row in of(made, table)) < 0.02
    intensity = {row.name: row.value for row in of(made, "intensity")}
    assert intensity == pytest.approx({"AlexNet": 24.6, "ResNet-50": 308}, rel=1e-3)
    assert of(made, "energy-factor", name="128")[0].value == pytest.approx(0.0884, abs=5e-5)
    for model, n, seconds in (
        ("ResNet-18", 8, 0.1391),
        ("ResNet-18", 64, 0.9298),
        ("ResNet-50", 8, 0.2794),
        ("ResNet-50", 64, 1.8894),
    ):
        (row,) = of(made, "lena", name="LENA", how=model, n=n)
        assert row.value == pytest.approx(seconds, abs=1e-4)


def test_closed_forms_are_exact() -> None:
    made = list(closed(SMOKE))
    assert max(abs(row.error) for row in made) < 1e-12
    assert set(CHOICES) & {row.name for row in made} == {"DPSGD, ring", "DPSGD, one-peer"}


def scale_with(made: list[Cell], path: Path) -> Scale:
    table = [
        {
            "n": cell.n,
            "mbits": cell.mbits,
            "delay_ms": 1e3 * cell.delay,
            "variant": cell.variant,
            "seconds": cell.seconds,
        }
        for cell in made
    ]
    tables.write(table, path / "time_netns.csv")
    return replace(smoke(path), results=path)


def test_constants_that_made_the_steps_are_found_again(tmp_path: Path) -> None:
    true, c = Constants(o=1e-3, h=1e-8, f=4e-9, k=1.5, e=0.9), 0.01
    cells = [
        Cell(n, mbits, delay, variant, 0.0)
        for n in (2, 4)
        for mbits in (10.0, 1000.0)
        for delay in (0.0, 0.005)
        for variant in MEASURED
    ]
    made = [
        replace(cell, seconds=c if cell.variant == "compute" else true.predict(cell, c))
        for cell in cells
    ]
    found = list(measured.rows(scale_with(made, tmp_path)))
    constants = {row.name: row.value for row in of(found, "constants")}
    assert constants == pytest.approx(asdict(true), rel=1e-3)
    assert len(of(found, "measured", how="fitted")) == 16
    assert len(of(found, "measured", how="held out")) == 16
    assert max(abs(row.error) for row in of(found, "measured")) < 1e-3


def test_a_step_between_hosts_is_the_closed_form() -> None:
    constants, c = Constants(o=0, h=1e-9, f=1e-9, k=2.0, e=0.5), 0.02
    bytes_per_second, m = 0.5 * 100e6 / 8, 4 * 159_010
    alpha = 2 * 0.005  # and two learners on a core: 2 c
    for variant, seconds in (
        ("ring", max(2 * c, alpha + 2 * m / bytes_per_second)),
        ("one-peer-exponential", max(2 * c, alpha + m / bytes_per_second)),
        ("ssgd", 2 * c + 6 * alpha + 1.5 * m / bytes_per_second),
        ("ddp", 2 * c + 6 * alpha + 1.5 * m / bytes_per_second),
    ):
        cell = Cell(4, 100.0, 0.005, variant, math.nan)
        assert constants.predict(cell, c) == pytest.approx(seconds)


def test_on_fast_links_a_step_is_the_work_of_two_cores() -> None:
    h, f, c, n, m = 1e-7, 2e-7, 0.02, 8, 4 * 159_010
    constants = Constants(o=0, h=h, f=f, k=2.0, e=1.0)
    for delay, byte in ((0.0, h), (1e-6, h + f)):
        ring, ssgd = 4 * m * byte * n / 2, 2 * 2 * (n - 1) / n * m * byte * n / 2
        for variant, work in (("ring", ring), ("ssgd", ssgd)):
            cell = Cell(n, 1e6, delay, variant, math.nan)
            assert constants.predict(cell, c) == pytest.approx(n / 2 * c + work, rel=1e-4)


def test_each_choice_counts_with_its_best_rate_at_what_all_of_them_reach(tmp_path: Path) -> None:
    """Ring: 30 % at best, in 20 steps by the slower rate; SSGD is below that in 10 by either."""
    errors = {
        ("SSGD", 0.1): [0.5, 0.3, 0.1],
        ("SSGD", 0.2): [0.2, 0.2, 0.2],
        ("DPSGD, ring", 0.1): [0.5, 0.5, 0.3],
        ("DPSGD, ring", 0.2): [0.9, 0.4, 0.4],
    }
    made = [
        to_target.Point(choice, 4, alpha, seed, 100, 10 * k, error)
        for (choice, alpha), found in errors.items()
        for seed in (0, 1)
        for k, error in enumerate(found)
    ]
    tables.write([asdict(point) for point in made], tmp_path / "time_runs.csv")
    scale = replace(smoke(tmp_path), results=tmp_path)
    points = to_target.read(scale)
    assert points == made
    assert to_target.target(points) == 0.3
    found = {each.choice: (each.alpha, each.steps) for each in to_target.reached(points)}
    assert found == {"SSGD": (0.2, (0, 0)), "DPSGD, ring": (0.1, (20, 20))}


def test_runs_to_a_target_differ_in_nothing_but_algorithm_graph_rate_and_seed() -> None:
    configs = to_target.runs(smoke(Path("nowhere"))).values()
    assert len({(c.algorithm, c.gossip.topology) for c in configs}) == len(to_target.CHOICES)
    assert len({(c.data, c.steps, c.monitoring, c.gossip.learners) for c in configs}) == 1


def test_variants_are_timed_in_turns_and_slow_ones_less_often(monkeypatch) -> None:
    asked = []

    def answer(ranks, variant, steps):
        asked.append((variant, steps))
        return {"ring": 1.0, "ssgd": 0.02}[variant]

    monkeypatch.setattr(netns, "_ask", answer)
    found = netns._turns([], ["ring", "ssgd"])
    assert found == {"ring": [1.0] * 2, "ssgd": [0.02] * 4}
    assert asked[:2] == [("ring", 1), ("ssgd", 1)]
    assert asked[2:] == [("ring", 3), ("ssgd", 20)] * 2 + [("ssgd", 20)] * 2


def test_cells_that_are_there_are_not_measured_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(hosts, "why_not", lambda: None)
    monkeypatch.setattr(hosts, "hosts", lambda n: pytest.fail("measured again"))
    size = replace(SMOKE, hosts=(2,), mbits=(10.0,), delays_ms=(0.0,))
    made = [Cell(2, 10.0, 0.0, variant, 1.0) for variant in MEASURED]
    scale = scale_with(made, tmp_path)
    netns.run(scale.results / "time_netns.csv", size)


def test_where_no_hosts_can_be_made_the_command_says_why(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(hosts, "why_not", lambda: "it needs root")
    assert netns.main(["--table", str(tmp_path / "t.csv")]) == 2
    assert capsys.readouterr().err == "error: no hosts can be made here: it needs root\n"


def test_the_committed_table_has_every_part() -> None:
    assert page.missing(rows.read(FULL), page.simgrid(FULL)) == []
    assert len(CLAIMS) == len({claim.statement for claim in CLAIMS})


@pytest.mark.skipif(not SIMGRID, reason="SimGrid is not installed: apt-get install python3-simgrid")
@pytest.mark.parametrize(
    ("name", "how"),
    [("SSGD", "ring"), ("SSGD", "tree"), ("DPSGD awc", "one-peer-exponential")],
)
def test_simgrid_says_the_same(name: str, how: str) -> None:
    ours, theirs = by_simgrid.seconds(name, how, 8), by_simgrid.simgrid_seconds(name, how, 8)
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_without_simgrid_the_command_says_how_to_get_it(monkeypatch, capsys) -> None:
    def no(*args, **kwargs):
        raise OSError

    by_simgrid.interpreter.cache_clear()
    monkeypatch.setattr(subprocess, "run", no)
    assert by_simgrid.main([]) == 2
    assert capsys.readouterr().err.endswith("apt-get install python3-simgrid\n")
    by_simgrid.interpreter.cache_clear()
