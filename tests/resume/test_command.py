"""`gossip.run --resume`: what goes on, what is refused, and that nothing is lost by it."""

import shutil

import pytest

from gossip import run, trace
from gossip.storage.folder import read_config, read_summary
from gossip.storage.lock import locked

pytestmark = pytest.mark.usefixtures("no_pictures")

OPTIONS = [
    "--dataset",
    "digits",
    "--batch-size",
    "10",
    "--learners",
    "4",
    "--widths",
    "8",
    "--lr",
    "0.05",
    "--monitor",
    "cheap",
    "--monitor-every",
    "5",
]


def resumed(out, *options):
    return run.main(["--resume", str(out), *options])


@pytest.fixture
def begun(tmp_path):
    """Starts a run in a new folder and gives the folder."""

    def begin(*options, algorithm=("dpsgd",), steps="12"):
        out = tmp_path / "run"
        chosen = ["--algorithm", *algorithm, "--steps", steps, *OPTIONS, *options]
        assert run.main([*chosen, "--out", str(out)]) in (0, 2)
        return out

    return begin


def steps(out):
    return trace.load(out)["step"].to_pylist()


def test_more_steps_go_on_after_the_end(begun):
    out = begun()
    assert resumed(out, "--steps", "20") == 0
    assert steps(out) == list(range(21))
    assert read_summary(out)["resumed_at"] == [12]
    assert read_config(out)["steps"] == 20
    assert [entry["step"] for entry in read_config(out)["record"]["resumed"]] == [12]


def test_fewer_steps_than_there_are_are_refused(begun, capsys):
    out = begun()
    before = read_config(out), read_summary(out)
    assert resumed(out, "--steps", "8") == 2
    assert "is at step 12 already" in capsys.readouterr().err
    assert (read_config(out), read_summary(out)) == before


def test_steps_replace_epochs(begun):
    out = begun("--epochs", "0.3")
    assert resumed(out, "--steps", "30") == 0
    assert read_summary(out)["steps"] == 30


def test_a_finished_run_without_a_checkpoint_is_not_begun_again(begun, capsys):
    out = begun("--checkpoint-keep", "0")
    before = (out / "trace.arrows").read_bytes()
    assert resumed(out, "--steps", "20") == 2
    assert "is finished and has no checkpoint" in capsys.readouterr().err
    assert (out / "trace.arrows").read_bytes() == before
    assert read_summary(out)["verdict"]


def test_a_finished_run_stays_as_it_is(begun, capsys):
    out = begun()
    before = (out / "trace.arrows").read_bytes()
    assert resumed(out) == 0
    assert "finished already" in capsys.readouterr().err
    assert (out / "trace.arrows").read_bytes() == before


def test_a_run_that_an_error_ended_goes_on_without_the_step(begun):
    options = ["--model", "tests.test_nonfinite:Poisoned", "--batch-size", "8", "--lr", "0.1"]
    out = begun(*options, "--on-nonfinite", "raise", steps="30")
    failed_at = read_summary(out)["steps"]
    assert failed_at < 30
    assert resumed(out, *options[:2], "--on-nonfinite", "skip") == 0
    summary = read_summary(out)
    assert summary["steps"] == 30
    assert summary["resumed_at"] == [failed_at]
    assert "failure" not in summary


def test_code_has_to_be_named_again_and_may_be(begun, capsys):
    options = ["--model", "tests.problems:batch_norm_net"]
    out = begun(*options)
    assert resumed(out, "--steps", "16") == 2
    assert "names code" in capsys.readouterr().err
    assert resumed(out, "--steps", "16", *options) == 0
    assert read_summary(out)["steps"] == 16


def test_other_code_is_another_option(begun, capsys):
    out = begun()
    assert resumed(out, "--model", "tests.problems:batch_norm_net") == 2
    assert "model.model: mlp -> tests.problems:batch_norm_net" in capsys.readouterr().err


def test_a_run_of_a_study_that_is_in_use_cannot_be_resumed_by_itself(begun, capsys):
    out = begun(algorithm=("dpsgd", "ssgd"))
    with locked(out / "dpsgd"):
        assert resumed(out / "dpsgd", "--steps", "20") == 2
        assert resumed(out, "--steps", "20") == 2
    assert capsys.readouterr().err.count("is in use") == 2


def test_a_study_goes_on_where_it_was(begun):
    out = begun(algorithm=("dpsgd", "ssgd"))
    (out / "ssgd" / "summary.json").unlink()
    before = (out / "dpsgd" / "trace.arrows").read_bytes()
    assert resumed(out) == 0
    assert (out / "dpsgd" / "trace.arrows").read_bytes() == before
    assert read_summary(out / "ssgd")["resumed_at"] == [12]
    assert steps(out / "ssgd") == list(range(13))


def test_a_file_in_place_of_a_run_of_a_study_is_one_sentence(begun, capsys):
    out = begun(algorithm=("dpsgd", "ssgd"))
    (out / "ssgd").rename(out / "other")
    (out / "ssgd").write_text("")
    assert resumed(out) == 2
    assert f"{out / 'ssgd'} is a file: choose another --out or remove it" in capsys.readouterr().err


def test_what_a_run_of_a_study_has_left_that_was_killed_as_it_began_is_replaced(begun):
    out = begun(algorithm=("dpsgd", "ssgd"))
    shutil.rmtree(out / "ssgd")
    (out / "ssgd" / "topology").mkdir(parents=True)
    for name in (".lock", ".config.toml.1.2"):
        (out / "ssgd" / name).write_text("")
    assert resumed(out) == 0
    assert steps(out / "ssgd") == list(range(13))
    assert not list((out / "ssgd").glob(".*"))
