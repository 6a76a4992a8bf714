"""A run's own step times: what the trace has of them, and what the simulator makes of it."""

import csv

import numpy as np
import pytest

from gossip import run, stragglers, trace
from gossip.simulate import command
from gossip.simulate.replay import recorded
from tests.report import made_up

WORDS = "--dataset digits --batch-size 8 --steps 12 --monitor cheap --monitor-every 5"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Ten steps, the second learner slow on purpose at some of them; then two more, gone on with.

    One process has both learners, so each gets half of what it took: of 40 ms, 20.
    """
    folder = tmp_path_factory.mktemp("study") / "A"
    slow = ["--straggler", "bernoulli", "--straggler-options", "p=0.5", "s=5"]
    words = [*WORDS.split(), "--algorithm", "dpsgd", "--learners", "2", "--step-times", *slow]
    words += ["--straggler-seconds", "0.01", "--checkpoint-every", "8"]
    assert run.main([*words, "--steps", "8", "--out", str(folder)]) == 0
    assert run.main(["--resume", str(folder), "--steps", "12"]) == 0
    return folder


def test_every_step_has_the_seconds_of_every_learner(study):
    seconds = recorded(study, 2)
    assert seconds.shape == (12, 2)
    draws = stragglers.make("bernoulli", ["p=0.5", "s=5"], n=2, seed=0)
    slept = np.array([0.01 * (max(draws.row(t)) - 1) / 2 for t in range(12)])
    assert slept.max() > 0
    assert (seconds >= slept[:, None]).all()
    np.testing.assert_array_equal(seconds[:, 0], seconds[:, 1])


def test_the_columns_add_up_to_the_clock(study):
    """Over a run that was taken up again, too: nothing between two rows of the trace is lost."""
    (loaded,) = command.load_runs([study])
    whole = loaded.number("wall_seconds", "gradient")
    assert recorded(study, 2).sum() == pytest.approx(whole, rel=1e-9)


def seconds_a_step(tmp_path, *words):
    file = tmp_path / "t.csv"
    more = ["--algorithm", "ssgd", "--all-reduce", "ring", "--network", "ideal", "--csv", str(file)]
    assert command.main([*words, *more]) == 0
    with file.open() as lines:
        return [float(row["seconds"]) for row in csv.DictReader(lines)]


def made(folder, times):
    """A run with these step times [steps, n]; the row that judges the end has none."""
    made_up.run(folder)
    names = [f"gradient_seconds/{j}" for j in range(len(times[0]))]
    with trace.Trace(folder, names) as writer:
        rows = [{"step": t, **dict(zip(names, row, strict=True))} for t, row in enumerate(times)]
        writer.append([*rows, {"step": len(times)}])
    return folder


def test_a_run_is_replayed_as_the_table_of_its_times_is(tmp_path):
    times = np.random.default_rng(0).uniform(0.1, 0.2, (12, 12))
    np.savetxt(tmp_path / "times.csv", times, delimiter=",")
    folder = made(tmp_path / "A", times)
    words = ["--learners", "12", "--steps", "24", "--step-times"]
    (ours,) = seconds_a_step(tmp_path, *words, str(folder))
    assert ours == pytest.approx(times.max(axis=1).mean(), rel=1e-12)
    assert [ours] == seconds_a_step(tmp_path, *words, str(tmp_path / "times.csv"))


def test_a_run_that_was_killed_has_the_times_of_another(tmp_path, capsys):
    """They count in the place of its own, which it has not."""
    outcome = made_up.summary(parameters=10, wall_seconds={}, steps=4)
    tables = {"algorithm": "ssgd", "gossip": {"learners": 2}}
    killed = made_up.run(tmp_path / "killed", outcome=outcome, tables=tables, made=made_up.rows(4))
    times = np.array([[0.1, 0.2], [0.3, 0.1]])
    words = [str(killed), "--network", "ideal", "--step-times", str(made(tmp_path / "A", times))]
    words += ["--all-reduce", "ring"]
    assert command.main(words) == 0
    assert " 0.175 " in capsys.readouterr().out  # the mean; a step takes 0.25
    file = tmp_path / "t.csv"
    assert command.main([*words, "--csv", str(file)]) == 0
    with file.open() as lines:
        seconds = [float(row["seconds"]) for row in csv.DictReader(lines)]
    np.testing.assert_allclose(seconds, [0.2, 0.5, 0.7, 1.0], rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["plain"], "it did not record what its gradients took; make a run with gossip.run"),
     (["timed"], "it has step times of 2 learners, and 8 are simulated; give --learners 2"),
     (["timed", "--learners", "1"], "it has step times of 2 learners, and 1 are simulated"),
     (["below", "--learners", "2"], "its trace has no step with times from 0 seconds up")],
)  # fmt: skip
def test_a_run_without_such_times_is_answered_in_one_sentence(words, sentence, tmp_path, capsys):
    made_up.run(tmp_path / "plain")
    made(tmp_path / "timed", [[0.1, 0.2]])
    made(tmp_path / "below", [[0.1, -0.2]])
    folder, *more = words
    assert command.main(["--step-times", str(tmp_path / folder), *more, "--steps", "2"]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_learners_without_a_step_in_common_have_no_such_table(tmp_path, capsys):
    words = [*WORDS.split(), "--algorithm", "ad-psgd", "--learners", "2", "--step-times"]
    assert run.main([*words, "--out", str(tmp_path / "A")]) == 2
    assert "ad-psgd with --step-times: learners that wait for nobody" in capsys.readouterr().err
