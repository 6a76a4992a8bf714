"""Recorded runs over simulated seconds: real small runs, and made-up ones that lack something."""

import csv
import json
from unittest.mock import Mock

import numpy as np
import pytest

from gossip import run
from gossip.config import Averaging, Config
from gossip.errors import UserError
from gossip.report import load_runs
from gossip.simulate import command
from gossip.simulate.coupling import config_of, row_bytes
from gossip.simulate.idle import OF_RUNS
from tests.report import made_up

TABLES = {"algorithm": "dpsgd", "gossip": {"learners": 16, "topology": "ring"}}


@pytest.fixture(scope="module")
def study(tmp_path_factory, without_pictures):
    out = tmp_path_factory.mktemp("study") / "A"
    words = "--algorithm ssgd dpsgd --dataset digits --learners 4 --batch-size 20 --steps 30"
    with without_pictures():
        assert run.main([*words.split(), "--monitor-every", "5", "--out", str(out)]) == 0
    return out


def test_each_row_gets_the_seconds_and_bytes_of_the_closed_form(study, tmp_path, capsys):
    file = tmp_path / "t.csv"
    words = [str(study), "--network", "1GbE", "--compute", "0.001", "--csv", str(file)]
    assert command.main(words) == 0
    parameters = json.loads((study / "ssgd" / "summary.json").read_text())["parameters"]
    m, alpha, beta, n = 4 * parameters, 50e-6, 8e-9, 4
    step = {
        "SSGD by ring all-reduce": 1e-3 + 2 * (n - 1) * alpha + 2 * (n - 1) / n * m * beta,
        "SSGD by halving-doubling all-reduce": 1e-3 + 4 * alpha + 2 * (n - 1) / n * m * beta,
        "DPSGD": max(1e-3, alpha + 2 * m * beta),
    }
    sent = dict.fromkeys(step, 2 * (n - 1) / n * m) | {"DPSGD": 2 * m}
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["run"] for row in rows} == set(step)
    for row in rows:
        steps = min(int(row["step"]) + 1, 30)  # the last row judges the end
        assert float(row["seconds"]) == pytest.approx(steps * step[row["run"]])
        assert float(row["bytes"]) == pytest.approx(steps * sent[row["run"]])
    assert "comes first to a test error of" in capsys.readouterr().out


def test_an_average_over_all_is_timed_by_each_all_reduce(study, capsys):
    """On a network without latency or bytes they are as soon."""
    words = [str(study), "--compute", "0.001", "--target", "1"]
    assert command.main([*words, "--network", "ideal", "--all-reduce", "ring", "double-tree"]) == 0
    shown = capsys.readouterr().out
    assert "DPSGD comes first to a test error of 100.00%, in 0.001 s; SSGD by ring " in shown
    assert "by ring all-reduce as soon." in shown
    for how in ("ring", "double-tree"):
        assert f"SSGD by {how} all-reduce" in shown
    assert "DPSGD by" not in shown
    assert command.main([*words, "--all-reduce"]) == 2
    assert "--all-reduce names none: give one or more of ring, " in capsys.readouterr().err


def test_what_the_runs_say_themselves_has_no_effect_and_that_is_said(study, capsys):
    words = [str(study), "--network", "4G", "--compute", "0.01", "--straggler", "lognormal"]
    words += ["--fail-every", "0.1", "--repair", "0.1"]
    assert command.main(words) == 0
    expected, none = capsys.readouterr()
    assert not none
    ignored = {
        "--learners": "64", "--algorithm": "diloco", "--topology": "star", "--order": "atc",
        "--topology-options": "a=1", "--algorithm-options": "every=3", "--mix-every": "5",
        "--parameters": "9", "--bytes-per-parameter": "2", "--scaling": "strong", "--steps": "3",
        "--seed": "7",
    }  # fmt: skip
    assert {name[2:].replace("-", "_") for name in ignored} == {*OF_RUNS}
    assert command.main([*words, *(text for pair in ignored.items() for text in pair)]) == 0
    found, notes = capsys.readouterr()
    assert found == expected
    for name in ignored:
        assert f"note: {name[2:]} has no effect with recorded runs\n" in notes


@pytest.mark.parametrize(
    ("name", "wire", "expected"),
    [("dpsgd", "full", 4000), ("dpsgd", "bf16", 2000), ("noloco", "bf16", 2000),
     ("dpsgd", "int8:50", 1000 + 4 * 20), ("ad-psgd", "bf16", 4000), ("ssgd", "int8", 4000)],
)  # fmt: skip
def test_a_row_has_the_bytes_in_which_it_travelled(name, wire, expected):
    """On a wire only where the run's messages were rounded: AD-PSGD's never are."""
    made = Mock(number=lambda key: 1000.0, setting=lambda key: name)
    assert row_bytes(made, Config(gossip=Averaging(learners=4, wire=wire))) == expected


def test_of_code_that_a_run_names_the_graph_alone_is_in_the_way(tmp_path):
    tables = {"gossip": {"topology": "ring"}, "model": {"model": "mynet:net"}}
    (of_net,) = load_runs([made_up.run(tmp_path / "net", tables=tables)])
    assert config_of(of_net).model.model == "mynet:net"
    tables["gossip"]["topology"] = "mygraph:bridge"
    (of_graph,) = load_runs([made_up.run(tmp_path / "graph", tables=tables)])
    with pytest.raises(UserError, match="a simulation runs no code of a run"):
        config_of(of_graph)


def test_a_run_without_timing_is_answered_in_one_sentence(tmp_path, capsys):
    killed = made_up.run(tmp_path / "killed", tables=TABLES, killed=True)
    assert command.main([str(killed)]) == 2
    said = capsys.readouterr().err
    assert "it has no timing (was it killed?): say what a gradient takes with --compute" in said
    assert said.count("\n") == 1


def test_a_run_without_an_error_is_timed_as_its_refusal_says(tmp_path, capsys):
    rows = [{"step": t, "train_loss": 1.0} for t in range(3)]
    outcome = made_up.summary(parameters=10, learners=16, test_error=None)
    folder = made_up.run(tmp_path / "A", tables=TABLES, made=rows, outcome=outcome)
    words = [str(folder), "--compute", "0.001"]
    assert command.main(words) == 2
    assert "with --target ERROR" in capsys.readouterr().err
    assert command.main([*words, "--target", "0.1"]) == 0
    assert "s/step" in capsys.readouterr().out


def test_a_run_without_rows_is_answered_in_one_sentence(tmp_path, capsys):
    empty = made_up.run(tmp_path / "empty", tables=TABLES, made=[])
    assert command.main([str(empty)]) == 2
    assert "its trace has no rows" in capsys.readouterr().err


def test_the_gradient_takes_what_the_run_has_measured(tmp_path, capsys):
    outcome = made_up.summary(parameters=10, learners=16, processes=4)
    made = made_up.run(tmp_path / "made", tables=TABLES, outcome=outcome)
    file = tmp_path / "t.csv"
    assert command.main([str(made), "--network", "ideal", "--csv", str(file)]) == 0
    with file.open() as lines:
        seconds = np.array([float(row["seconds"]) for row in csv.DictReader(lines)])
    c = 6.0 / 100 / 4  # gradients of 100 steps took 6 s, four learners in turn
    np.testing.assert_allclose(seconds, c * np.arange(1, 101))
