import csv
import errno
import io
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from gossip import trace
from gossip.errors import UserError
from gossip.report import heading, load_runs, main, summary_table
from gossip.report.figures import save, study_figure
from gossip.report.series import (
    alpha_ratio,
    early_and_late,
    first_not_finite,
    running_ratio,
    smooth,
)
from gossip.report.table import cells
from gossip.storage import folder
from tests.report import made_up


@pytest.fixture
def study(tmp_path):
    """Two algorithms; SSGD ends in NaN."""
    made_up.run(tmp_path / "dpsgd")
    rows = made_up.rows(60)
    rows[50]["train_loss"] = math.nan
    rows[50:] = [{"step": row["step"], "train_loss": math.nan} for row in rows[50:]]
    outcome = made_up.summary(verdict="diverged", train_loss=math.nan)
    tables = made_up.config(algorithm="ssgd")
    made_up.run(tmp_path / "ssgd", made=rows, tables=tables, outcome=outcome)
    return tmp_path


def printed(runs):
    console = Console(width=200, file=io.StringIO())
    console.print(summary_table(runs))
    return console.file.getvalue()


class TestLabels:
    def labels(self, tmp_path, *changes):
        for i, change in enumerate(changes):
            made_up.run(tmp_path / f"r{i}", made=[], tables=made_up.config(**change))
        return [run.label for run in load_runs([tmp_path])]

    def test_are_the_settings_that_differ(self, tmp_path):
        changes = [{"topology": "ring"}, {"topology": "complete", "lr": 0.5}]
        assert self.labels(tmp_path, *changes) == ["ring, lr 1.5", "complete, lr 0.5"]

    def test_begin_with_the_algorithm_as_the_literature_writes_it(self, tmp_path):
        changes = [{"algorithm": "ssgd-star", "seed": 1}, {"algorithm": "mine", "seed": 2}]
        assert self.labels(tmp_path, *changes) == ["SSGD*, seed 1", "mine, seed 2"]

    def test_fall_back_on_the_folder(self, tmp_path):
        assert self.labels(tmp_path, {}, {}) == ["DPSGD (r0)", "DPSGD (r1)"]

    def test_leave_out_what_a_run_does_not_have(self, tmp_path):
        changes = [{"noise": 0.1, "algorithm": "ssgd-star"}, {"algorithm": "ssgd"}]
        assert self.labels(tmp_path, *changes) == ["SSGD*, noise 0.1", "SSGD"]

    def test_have_options_as_one_writes_them_and_nothing_of_those_that_are_empty(self, tmp_path):
        changes = [
            {"steps": 60, "topology_options": ["links=2", "k=1"]},
            {"steps": 60, "topology_options": []},
            {"steps": 70, "topology_options": []},
        ]
        assert self.labels(tmp_path, *changes) == ["steps 60, links=2 k=1", "steps 60", "steps 70"]

    def test_name_the_algorithm_where_the_others_alone_have_options(self, tmp_path):
        changes = [{"topology_options": ["links=2"]}, {"topology_options": []}]
        assert self.labels(tmp_path, *changes) == ["links=2", "DPSGD"]

    def test_a_script_differs_only_in_what_it_says_of_itself(self, tmp_path):
        for k, lr in enumerate((0.1, 0.2)):
            made_up.run(tmp_path / f"r{k}", made=[], tables=made_up.config(lr=lr))
        own = {"algorithm": "dpsgd", "topology": "ring", "learners": 4}
        tables = {"gossip": own, "record": {"script": True}}
        made_up.run(tmp_path / "script", made=[], tables=tables)
        labels = [run.label for run in load_runs([tmp_path])]
        assert labels == ["learners 16, lr 0.1", "learners 16, lr 0.2", "learners 4"]

    def test_are_unique_whatever_the_folders_are_called(self, tmp_path):
        for study in "ab":
            made_up.run(tmp_path / study / "run", made=[], tables={})
        labels = [run.label for run in load_runs([tmp_path / "a", tmp_path / "b"])]
        assert len(set(labels)) == 2

    def test_the_heading_says_what_is_common(self, study):
        expected = "MNIST, n = 16 learners, ring, learning rate 1.5, batch 125 per learner"
        assert heading(load_runs([study])) == expected


class TestSeries:
    def test_the_ratio_of_a_window_is_that_of_its_sums(self):
        got = running_ratio(np.array([1.0, 2, 6]), np.array([1.0, 1, 2]), 3)
        np.testing.assert_allclose(got, [3 / 2, 9 / 4, 8 / 3])
        assert len(running_ratio(np.empty(0), np.empty(0), 3)) == 0

    def test_smoothing_leaves_gaps_where_a_value_is_not_finite(self):
        got = smooth(np.array([1.0, 3, np.nan, np.inf, 5]), 3)
        np.testing.assert_allclose(got, [2, 2, np.nan, np.nan, 5])

    def test_alpha_ratio_weighs_by_the_gradient(self, tmp_path):
        rows = [
            {"step": 0, "lr": 2.0, "alpha_e": 1.0, "grad_norm": 3.0},
            {"step": 1, "lr": 2.0},
            {"step": 2, "lr": 2.0, "alpha_e": 2.0, "grad_norm": 1.0},
            {"step": 3, "lr": 2.0, "alpha_e": math.nan, "grad_norm": 0.0},
        ]
        (run,) = load_runs([made_up.run(tmp_path / "r", made=rows)])
        steps, ratio, weight = alpha_ratio(run)
        assert (list(steps), list(ratio), list(weight)) == ([0, 2], [0.5, 1.0], [18.0, 2.0])
        assert early_and_late(run) == (0.5, 1.0)

    def test_divergence_is_found_where_the_loss_was_recorded(self, study):
        dpsgd, ssgd = load_runs([study])
        assert first_not_finite(dpsgd) is None
        assert first_not_finite(ssgd) == 50


class TestKilledRuns:
    pytestmark = pytest.mark.usefixtures("no_pictures")

    def test_are_read_from_their_traces(self, tmp_path):
        path = made_up.run(tmp_path / "r", killed=True, made=made_up.rows(40))
        with (path / "trace.arrows").open("ab") as file:
            file.write(b"\xff\xff\xff\xff\x00\x08\x00\x00torn")
        (run,) = load_runs([path])
        assert (run.verdict, run.number("steps")) == ("interrupted", 40)
        assert run.number("train_loss") == made_up.rows(40)[-1]["train_loss"]
        assert run.number("test_error") == made_up.rows(40)[35]["test_error"]

    def test_are_reported_with_a_word_on_the_torn_end(self, tmp_path, capsys):
        path = made_up.run(tmp_path / "r", killed=True, made=made_up.rows(40))
        with (path / "trace.arrows").open("ab") as file:
            file.write(b"\xff\xff\xff\xff\x00\x08\x00\x00torn")
        assert main([str(path)]) == 0
        out = capsys.readouterr().out
        assert "interrupted" in out
        assert "torn; its 40 whole rows are used" in out

    def test_without_a_row_are_shown_too(self, tmp_path):
        runs = load_runs([made_up.run(tmp_path / "r", killed=True, made=[])])
        assert "interrupted" in printed(runs)
        study_figure(runs)


def test_the_table_has_one_line_per_run(study):
    runs = load_runs([study])
    row = cells(runs[0])
    assert (row["run"], row["verdict"], row["test error"]) == ("DPSGD", "converged", "3.61 %")
    assert (row["MB sent"], row["seconds"]) == ("2", "10.0")
    assert row["time by phase"] == "gradient 60%, monitor 20%, data 10%"
    assert cells(runs[1])["train loss"] == ""
    text = printed(runs)
    assert "SSGD" in text
    assert "diverged" in text


def test_the_table_says_what_early_and_late_are_where_it_has_them(tmp_path):
    rows = {"with": made_up.rows(30), "without": made_up.rows(30, monitored_every=None)}
    for name, made in rows.items():
        text = printed(load_runs([made_up.run(tmp_path / name, made=made)]))
        assert ("the first and the last fifth" in text) == (name == "with")


def test_seconds_that_were_simulated_are_those_that_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(made_up, "COLUMNS", [*made_up.COLUMNS, "simulated_seconds"])
    rows = [row | {"simulated_seconds": 0.5 * row["step"]} for row in made_up.rows(30)]
    (run,) = load_runs([made_up.run(tmp_path / "r", made=rows)])
    assert cells(run)["seconds"] == "14.5 simulated"


def test_markup_and_formulas_in_a_file_are_shown_as_they_are(tmp_path):
    for i, name in enumerate(["[red]$x^$", "</td>$_{"]):
        made_up.run(tmp_path / f"{i}", tables=made_up.config(topology=name))
    runs = load_runs([tmp_path])
    assert "[red]$x^$" in printed(runs)
    assert "[red]$x^$" in heading(runs[:1])
    save(study_figure(runs), tmp_path / "f.png")


ROWS = {
    "normal": made_up.rows(100),
    "cheap": made_up.rows(100, monitored_every=None),
    "single row": made_up.rows(1),
    "single bare row": made_up.rows(1, monitored_every=None),
    "empty": [],
    "all NaN": [dict.fromkeys(row, math.nan) | {"step": row["step"]} for row in made_up.rows(20)],
    "all zero": [dict.fromkeys(row, 0.0) | {"step": row["step"]} for row in made_up.rows(20)],
    "exploding": [row | {"train_loss": 10.0 ** row["step"]} for row in made_up.rows(300)],
    "no variance": [row | {"sigma_w2": 0.0, "delta2": 0.0} for row in made_up.rows(20)],
}


@pytest.mark.parametrize("name", ROWS)
def test_a_figure_is_drawn_of_any_run(tmp_path, name):
    runs = load_runs([made_up.run(tmp_path / "r", made=ROWS[name])])
    path = save(study_figure(runs), tmp_path / "f.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_diverged_run_is_marked(study):
    figure = study_figure(load_runs([study]))
    assert [text.get_text() for text in figure.axes[0].texts] == ["not finite"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["DPSGD", "SSGD, diverged"]


def test_each_of_many_runs_has_its_own_look_and_the_panels_keep_their_size(tmp_path):
    for i in range(37):
        made_up.run(tmp_path / f"{i}", made=made_up.rows(6), tables=made_up.config(seed=i))
    runs = load_runs([tmp_path])
    figure, small = study_figure(runs), study_figure(runs[:1])
    handles = figure.legends[0].legend_handles
    assert len({(h.get_color(), str(h._dash_pattern)) for h in handles}) == 37
    assert "--html" in figure.legends[0].get_title().get_text()
    for drawn in (figure, small):
        drawn.draw_without_rendering()
    heights = [drawn.axes[0].get_position().height * drawn.get_figheight()
               for drawn in (figure, small)]  # fmt: skip
    assert heights[0] == pytest.approx(heights[1], rel=0.15)


def panel(rows, tmp_path, place):
    """A panel of a run, with its y axis as it is drawn."""
    figure = study_figure(load_runs([made_up.run(tmp_path / "run", made=rows)]))
    return figure.axes[place]


def test_rounding_does_not_stretch_the_axis_of_the_spread(tmp_path):
    rows = made_up.rows(20, monitored_every=1)
    rows[0] |= {"sigma_w2": 0.0, "sigma_w2_mixed": 3e-16}
    low, high = panel(rows, tmp_path, 2).get_ylim()
    assert 0.01 < low < high < 10


def test_a_run_that_explodes_does_not_make_the_spread_of_others_rounding(tmp_path):
    rows = made_up.rows(20, monitored_every=1)
    for row in rows[10:]:
        row["sigma_w2"] = 1e25
    assert panel(rows, tmp_path, 2).get_ylim()[0] < 1


def test_the_only_points_of_a_run_have_marks(tmp_path):
    for place in range(4):
        axes = panel(made_up.rows(1), tmp_path / str(place), place)
        assert any(len(line.get_xdata()) and line.get_marker() != "None" for line in axes.lines)


def test_a_panel_says_beside_its_axis_what_it_leaves_out(tmp_path):
    rows = made_up.rows(10, monitored_every=1)
    rows[3]["alpha_e"] = -90.0
    axes = panel(rows, tmp_path, 1)
    assert (axes.get_ylim()[0], axes.get_xlabel()) == (-3, "step   (cut off at -3)")
    made_up.run(tmp_path / "run2", made=[row | {"sigma_w2": 0.0} for row in rows],
                tables=made_up.config(algorithm="ssgd"))  # fmt: skip
    axes = study_figure(load_runs([tmp_path])).axes[2]
    assert axes.get_xlabel() == "step   (always zero: SSGD)"
    assert not axes.texts


def test_a_figure_is_the_same_file_twice(study, tmp_path):
    runs = load_runs([study / "ssgd"])
    a, b = (save(study_figure(runs), tmp_path / f"{name}.svg") for name in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_a_full_disk_leaves_the_figure_that_there_was(study, tmp_path, monkeypatch):
    def full(self, target, **_):
        target.write_bytes(b"half a pict")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    figure, path = study_figure(load_runs([study])), tmp_path / "shown" / "f.png"
    path.parent.mkdir()
    path.write_bytes(b"whole")
    monkeypatch.setattr(type(figure), "savefig", full)
    with pytest.raises(UserError, match=r"cannot write .*f\.png: No space left on device"):
        save(figure, path)
    assert [each.read_bytes() for each in path.parent.iterdir()] == [b"whole"]


def test_a_figure_is_not_drawn_in_a_format_we_do_not_know(study, tmp_path):
    with pytest.raises(UserError, match="a figure ends in one of"):
        save(study_figure(load_runs([study])), tmp_path / "f.jpeg")


@pytest.mark.usefixtures("no_pictures")
def test_the_csv_holds_the_traces(study, tmp_path, capsys):
    assert main([str(study), "--csv", str(tmp_path / "out.csv")]) == 0
    with (tmp_path / "out.csv").open() as file:
        lines = list(csv.DictReader(file))
    runs = load_runs([study])
    expected = [(run.label, row) for run in runs for row in run.trace.to_pylist()]
    assert len(lines) == len(expected) == 160
    assert list(lines[0]) == ["run", "step", *made_up.COLUMNS]
    for line, (label, row) in zip(lines, expected, strict=True):
        assert line.pop("run") == label
        for name, value in row.items():
            read = float(line[name]) if line[name] else None
            assert read == value or (math.isnan(read) and math.isnan(value)), name


@pytest.mark.usefixtures("no_pictures")
def test_what_lies_beside_the_runs_is_noted(study, capsys):
    assert main([str(study)]) == 0  # draws figure.png there
    assert main([*map(str, sorted(study.iterdir()))]) == 0
    assert f"note: no run in {study / 'figure.png'}\n" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_the_figure_lies_beside_what_it_shows(study, tmp_path, capsys, monkeypatch):
    assert main([str(study / "dpsgd")]) == 0
    assert (study / "dpsgd" / "figure.png").is_file()
    assert main([str(study)]) == 0
    assert f"wrote {study / 'figure.png'}" in capsys.readouterr().out
    other = made_up.run(tmp_path / "elsewhere" / "run")
    monkeypatch.chdir(tmp_path / "elsewhere")
    own = tmp_path / "elsewhere" / "figure.png"
    own.write_bytes(b"the user's")
    assert main([str(study / "dpsgd"), str(other)]) == 0
    assert own.read_bytes() == b"the user's"
    assert (tmp_path / "elsewhere" / "gossip-report.png").is_file()
    assert main([str(study), "--figure", str(tmp_path / "f.svg")]) == 0
    assert (tmp_path / "f.svg").is_file()


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-run"], "no run in no-such-run (it does not exist)"),
        ([], "no run given"),
        (["run", "--figure", "f.jpg"], "a figure ends in one of"),
        (["run", "--figure", "no/f.png"], "cannot write no/f.png"),
        (["run", "--csv", "no/f.csv"], "cannot write no/f.csv"),
        (["run", "--html", "no/f.html"], "cannot write no/f.html"),
        (["garbage"], "is not a gossip trace"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    tmp_path, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    made_up.run(tmp_path / "run", made=made_up.rows(5))
    folder.create(tmp_path / "garbage")
    (tmp_path / "garbage" / trace.FILE).write_bytes(b"garbage")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_the_command_starts_without_torch_mpi_or_matplotlib(tmp_path):
    code = (
        "import sys, gossip.report, gossip.storage.folder, gossip.report.figures\n"
        "print({'torch', 'mpi4py', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(option in out for option in ("RUN", "--csv FILE", "--figure FILE", "--html FILE"))
