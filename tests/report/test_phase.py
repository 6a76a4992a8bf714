"""Phase diagrams: the cells are counts and means of the runs that share two settings."""

import csv
import io
import itertools
import math
import re
from dataclasses import replace
from urllib.parse import unquote

import pytest

from gossip.errors import UserError
from gossip.report import load_runs, main
from gossip.report.phase import HEAD, MOST, Tally, as_csv, draw, phase
from tests.report import made_up

RATES, TOPOLOGIES = (1.0, 0.25, 10.0), ("ring", "complete")


def diverges(lr, topology, seed):
    return lr == 10 or (lr == 1 and topology == "ring" and seed > 0)


@pytest.fixture
def sweep(tmp_path):
    """Three rates, two topologies, three seeds; an error is lr / 100 + seed / 1000."""
    for lr, topology, seed in itertools.product(RATES, TOPOLOGIES, range(3)):
        verdict = "diverged" if diverges(lr, topology, seed) else "converged"
        made_up.run(
            tmp_path / f"{topology}-{lr}-{seed}",
            made=made_up.rows(2),
            tables=made_up.config(lr=lr, topology=topology, seed=seed),
            outcome=made_up.summary(verdict=verdict, test_error=lr / 100 + seed / 1000),
        )
    return tmp_path


def test_cells_are_counts_and_means_and_numbers_ascend(sweep):
    found = phase(load_runs([sweep]), "lr", "topology")
    assert found.values == ([0.25, 1.0, 10.0], ["complete", "ring"])
    assert found.cell(0.25, "ring") == Tally(3, 0, pytest.approx(0.0035), 0)
    assert found.cell(1.0, "ring") == Tally(3, 2, pytest.approx(0.01), 0)
    lost = found.cell(10.0, "complete")
    assert (lost.runs, lost.diverged, math.isnan(lost.error)) == (3, 3, True)
    axes = draw(found).axes
    assert [text.get_text() for text in axes[0].texts] == ["0/3", "0/3", "3/3", "0/3", "2/3", "3/3"]
    assert len(axes[1].texts) == 4  # where all diverged there is no error


def test_what_has_no_end_is_counted_and_says_nothing(sweep):
    tables = made_up.config(lr=2.0, topology="star", seed=0)
    made_up.run(sweep / "killed", made=made_up.rows(2), tables=tables, killed=True)
    found = phase(load_runs([sweep]), "lr", "topology")
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert len(lines) == 7  # pairs without a run are no lines
    (killed,) = (line for line in lines if line["topology"] == "star")
    assert [killed[name] for name in ("lr", *HEAD)] == ["2.0", "0", "0", "", "1"]
    assert float(lines[0]["test_error"]) == found.cell(0.25, "complete").error


def test_the_command_leaves_picture_and_csv_and_puts_them_into_the_page(sweep, no_pictures):
    page = sweep / "page.html"
    runs = map(str, sorted(sweep.glob("*-0")))
    assert main([*runs, "--phase", "topology", "lr", "--html", str(page)]) == 0
    assert (sweep / "phase.png").read_bytes()[:4] == b"\x89PNG"
    (link,) = re.findall(r'href="data:text/csv,(.*?)"', page.read_text(encoding="utf-8"))
    assert unquote(link) == (sweep / "phase.csv").read_text()
    assert unquote(link).startswith("topology,lr,runs,diverged,test_error,interrupted\n")


def test_more_values_than_a_picture_has_room_for_are_refused(sweep):
    (run, *_) = load_runs([sweep])
    many = [replace(run, config=made_up.config(lr=float(k), seed=k)) for k in range(MOST + 1)]
    with pytest.raises(UserError, match=f"'lr' has {MOST + 1} values"):
        phase(many, "lr", "topology")


def test_a_run_without_a_setting_is_not_asked_whether_it_means_that_setting(sweep):
    (run, *others) = load_runs([sweep])
    bare = {key: value for key, value in run.config.items() if key != "rate"}
    with pytest.raises(UserError, match="has no setting 'lr'; the runs differ in"):
        phase([replace(run, config=bare), *others], "lr", "topology")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("alpha", "topology"), "no setting 'alpha'; the runs differ in topology, seed, lr"),
        (("lr", "topologie"), "did you mean topology"),
        (("lr", "lr"), "name two settings"),
    ],
)
def test_settings_that_are_none_are_one_sentence(sweep, settings, message):
    with pytest.raises(UserError, match=message):
        phase(load_runs([sweep]), *settings)
