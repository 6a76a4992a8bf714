"""The whole command on the real 8x8 digits, and what it says where it is wrong."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossip.compare.command import main, parse
from gossip.storage.folder import TRACE
from tests.inline import inline_runs

pytestmark = pytest.mark.usefixtures("no_pictures")

SMALL = ["--dataset", "digits", "--epochs", "1", "--batch-size", "64", "--lr", "0.2"]


@pytest.fixture(autouse=True)
def _inline_runs() -> Iterator[None]:
    with inline_runs():
        yield


def command(out: Path, *options: str) -> list[str]:
    return [*SMALL, "--methods", "lsw", "dpsgd:lr=0.1", "--seeds", "0", "--out", str(out), *options]


def test_a_comparison_is_made_once_and_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    options = command(tmp_path, "--learners", "1", "2", "4", "--validation", "100", "--jobs", "2")
    assert main(options) == 0
    said = capsys.readouterr()
    assert "1/7" in said.err
    for name in ("lsw", "dpsgd:lr=0.1", "single", "batch 64 per learner, 1 epochs of 1337 samples"):
        assert name in said.out
    with (tmp_path / "comparison.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    for row in rows:
        steps = math.ceil(1337 / int(row["total_batch"]))
        assert int(row["updates"]) == steps
        assert row["judged_by"] == "validation_error"
    assert "| 4 | 256 | lsw |" in (tmp_path / "comparison.md").read_text()

    traces = {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"runs/*/{TRACE}")}
    pictures = {path: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert len(traces) == 7
    assert sorted(p.name for p in pictures) == [
        "accuracy.png",
        "curves.png",
        "epochs_to_target.png",
    ]
    for again in (options, ["--out", str(tmp_path), "--report"]):
        assert main(again) == 0
        repeated = capsys.readouterr()
        assert repeated.out == said.out
        assert "/7" not in repeated.err
    assert {path: path.stat().st_mtime_ns for path in traces} == traces
    assert {path: path.read_bytes() for path in pictures} == pictures


def test_a_folder_goes_on_with_its_own_comparison_only(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    options = command(tmp_path, "--learners", "2", "--target", "0.5")
    assert main(options) == 0
    assert main([*options, "--seeds", "0", "1"]) == 0
    capsys.readouterr()
    assert main([*options, "--momentum", "0.5"]) == 2
    assert "rate.momentum" in capsys.readouterr().err


def test_what_is_not_finished_is_said_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(command(tmp_path, "--learners", "2", "--jobs", "2")) == 0
    (tmp_path / "runs" / "single-n1-s0" / "summary.json").unlink()  # as if it had been killed
    capsys.readouterr()
    assert main(["--out", str(tmp_path), "--report"]) == 0
    said = capsys.readouterr().out
    assert "2 of 3 runs are finished" in said
    assert "not known yet" in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--learners", "2", "40"], "n B = 2560 exceeds the 1437 training samples"),
        (["--learners", "2", "--tune", "lr=0.1,0.2"], "sets lr, which --tune tries"),
        (["--learners", "2", "--tune", "momentum=0,0.9"], "--tune needs --validation > 0"),
        (["--learners", "2", "--steps", "5"], "give --epochs instead"),
        (["--learners", "2", "2"], "learners: 2 is given twice"),
        (["--learners", "2", "--topology", "rign"], "lsw with n = 2: unknown topology"),
        (
            ["--learners", "2", "--methods", "lsw", "ef21:scaling=lena"],
            "ef21:scaling=lena with n = 2: algorithm ef21 steps along an estimate",
        ),
        (["--learners", "2", "--jobs", "0"], "jobs=0"),
        (["--report"], "no comparison in"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, options: list[str], sentence: str
) -> None:
    assert main(command(tmp_path, *options)) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_no_methods_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main([*SMALL, "--out", str(tmp_path)]) == 2
    assert "no methods given" in capsys.readouterr().err


def test_a_changed_comparison_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "comparison.toml").write_text("methods = 3\n")
    assert main(["--out", str(tmp_path), "--report"]) == 2
    assert "comparison.toml" in capsys.readouterr().err


def test_options_of_an_algorithm_are_a_methods_own(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'algorithm = ["diloco"]\nepochs = 1.0\n[gossip]\nalgorithm_options = ["every=9"]\n'
    )
    for options in (["--algorithm-options", "every=9"], ["--config", str(path)]):
        assert main(command(tmp_path / "out", *options)) == 2
        assert "a method's own; write it as diloco:algorithm_opt" in capsys.readouterr().err


def test_a_config_file_is_the_base_and_the_flags_win(tmp_path: Path) -> None:
    path = tmp_path / "base.toml"
    path.write_text('epochs = 4.0\n[rate]\nlr = 0.7\ndecay = "cosine"\n[gossip]\nlearners = 3\n')
    command, given = parse(["--config", str(path), "--lr", "0.1", "--out", "x"])
    assert command.options.rate.lr == 0.1
    assert (command.options.rate.decay, command.options.epochs) == ("cosine", 4.0)
    assert command.options.monitoring.monitor == "cheap"
    assert given == {"lr", "decay"}
