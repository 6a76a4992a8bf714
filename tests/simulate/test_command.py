"""The command: a question in one line, an answer in one sentence."""

import csv

import numpy as np
import pytest

from gossip.simulate import command
from tests.simulate.networks import flat


def ask(capsys, *words):
    code = command.main([*words, "--steps", "30"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out.splitlines()


def test_eight_machines_with_one_gigabit(capsys):
    *_, answer = ask(capsys, "--learners", "8", "--network", "1GbE")
    assert answer.startswith(
        "8 learners on 1GbE: dpsgd on one-peer-exponential is fastest, 0.8193 s a step; "
        "ssgd by halving-doubling all-reduce takes 1.534 s, 1.87 times as long; one learner"
    )


def test_where_nothing_is_to_be_saved_the_exact_average_wins(capsys):
    *_, answer = ask(capsys, "--network", "ideal")
    assert "ssgd by ring all-reduce is fastest, 0.1 s a step (as fast: " in answer
    assert answer.endswith("Gossip would save nothing here.")


def test_machines_that_are_no_faster_than_one_are_told(capsys):
    words = ["--learners", "8", "--network", "1GbE"]
    *_, answer = ask(capsys, *words)
    assert "; one learner alone does as many samples a second (speed-up 0.977): send less" in answer
    *_, answer = ask(capsys, *words, "--compute", "1")
    assert "alone" not in answer


def test_options_without_effect_are_said(capsys, tmp_path):
    times = tmp_path / "times.csv"
    times.write_text("1,2\n")
    words = "--learners 2 --algorithm ssgd --order atc --target 0.3 --points 3 --repair 2"
    more = ["--step-times", str(times), "--compute", "2", "--straggler", "pareto", "--steps", "2"]
    assert command.main([*words.split(), *more]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "gossip.simulate: note: target has no effect without recorded runs",
        "gossip.simulate: note: points has no effect without --phase-diagram",
        "gossip.simulate: note: repair has no effect without --fail-every",
        "gossip.simulate: note: compute has no effect with --step-times",
        "gossip.simulate: note: straggler has no effect with --step-times",
        "gossip.simulate: note: order has no effect with --algorithm ssgd",
    ]
    assert command.main(["--learners", "2", "--steps", "2"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [("noloco", "noloco by random pairs is fastest, "),
     ("demo", "demo by messages of all to all is fastest, "),
     ("ssgd", "ssgd by halving-doubling all-reduce is fastest, ")],
)  # fmt: skip
def test_what_stands_alone_is_called_by_what_it_sends(algorithm, said, capsys):
    """Where nothing was compared with gossip, nothing is said of it."""
    words = ["--algorithm", algorithm, "--network", "10GbE", "--all-reduce", "halving-doubling"]
    *_, answer = ask(capsys, *words)
    assert answer.startswith(f"8 learners on 10GbE: {said}")
    assert "ossip" not in answer


def rows(capsys, file, *words):
    ask(capsys, *words, "--csv", str(file))
    with file.open() as lines:
        return list(csv.DictReader(lines))


def test_weak_and_strong_scaling_by_their_definitions(capsys, tmp_path):
    words = ["--learners", "1", "4", "--algorithm", "ssgd", "--all-reduce", "tree"]
    words += ["--network", "10GbE", "--compute", "1"]
    extra = 2 * 2 * (30e-6 + 25.6e6 * 4 * 0.8e-9)
    for scaling, seconds, speedup in (
        ("weak", 1 + extra, 4 / (1 + extra)),
        ("strong", 0.25 + extra, 1 / (0.25 + extra)),
    ):
        one, four = rows(capsys, tmp_path / "t.csv", *words, "--scaling", scaling)
        assert float(one["seconds"]) == float(one["speedup"]) == float(one["efficiency"]) == 1
        assert float(four["seconds"]) == pytest.approx(seconds)
        assert float(four["speedup"]) == pytest.approx(speedup)
        assert float(four["efficiency"]) == pytest.approx(speedup / 4)
        share = 0.25 if scaling == "strong" else 1
        assert float(four["idle"]) == pytest.approx(1 - share / seconds)


def test_measured_step_times_are_replayed(capsys, tmp_path):
    times = np.random.default_rng(0).uniform(0.1, 0.2, (30, 4))
    np.savetxt(tmp_path / "times.csv", times, delimiter=",")
    words = ["--learners", "4", "--algorithm", "ssgd", "--all-reduce", "ring"]
    words += ["--network", "ideal", "--step-times", str(tmp_path / "times.csv")]
    (line,) = rows(capsys, tmp_path / "t.csv", *words)
    assert float(line["seconds"]) == pytest.approx(times.max(axis=1).mean())


def test_mixing_every_third_step_sends_a_third(capsys, tmp_path):
    words = ["--learners", "4", "--algorithm", "dpsgd", "--topology", "ring", "--mix-every", "3"]
    (line,) = rows(capsys, tmp_path / "t.csv", *words)
    assert float(line["messages"]) == pytest.approx(2 / 3)


def test_a_picture_and_a_network_from_a_file(capsys, tmp_path):
    file, picture = tmp_path / "lab.toml", tmp_path / "o.svg"
    link = flat().links["rack"]
    file.write_text(f"[links.rack]\nlatency = {link.latency}\nbandwidth = {8 * link.up}\n")
    words = ["--learners", "2", "4", "--algorithm", "ssgd", "dpsgd", "ad-psgd"]
    *_, said = ask(
        capsys, *words, "--topology", "ring", "--network", str(file), "--figure", str(picture)
    )
    assert said == f"wrote {picture}"
    assert picture.read_text().count("<svg") == 1


def test_a_round_that_is_longer_than_the_steps_is_simulated_whole(tmp_path):
    file = tmp_path / "table.csv"
    words = ["--algorithm", "diloco", "--all-reduce", "ring", "--steps", "50", "--csv", str(file)]
    assert command.main([*words, "--network", "1GbE", "--parameters", "1e6"]) == 0
    with file.open() as table:
        (line,) = csv.DictReader(table)
    # 2 (n - 1) messages of M / n in one of 100 steps.
    assert float(line["bytes"]) == pytest.approx(14 / 8 * 4e6 / 100)


def test_an_algorithm_has_the_options_it_is_given(capsys, tmp_path):
    words = ["--algorithm", "diloco", "--algorithm-options", "every=10", "--all-reduce", "ring"]
    (line,) = rows(capsys, tmp_path / "t.csv", *words, "--parameters", "1e6")
    assert float(line["bytes"]) == pytest.approx(14 / 8 * 4e6 / 10)


BAD = [
    (["--algorithm", "diloco", "--algorithm-options", "evry=9"], "'evry': did you mean every?"),
    (["--network", "1GBE"], "unknown network '1GBE': did you mean 1GbE?"),
    (["--algorithm", "dsgd"], "unknown algorithm 'dsgd': did you mean dpsgd?"),
    (["--topology", "rings"], "unknown topology 'rings'"),
    (["--all-reduce", "rings"], "unknown all-reduce 'rings': did you mean ring?"),
    (["--straggler", "sloth"], "unknown straggler model 'sloth'"),
    (["--scaling", "best"], "unknown scaling 'best'"),
    (["--learners", "0"], "learners=0: it must be at least 1"),
    (["--steps", "0"], "steps=0: it must be at least 1"),
    (["--compute", "-1"], "compute=-1.0: give seconds from 0 up"),
    (["--parameters", "0"], "parameters=0.0: give a number above 0"),
    (["--slowness", "1", "2"], "slowness of 2 learners for 8"),
    (["--step-times", "nowhere.csv"], "nowhere.csv: there is no such file"),
    (["--fail-every", "-1"], "fail_every=-1.0: give the mean seconds"),
    (["--figure", "o.gif"], "a figure ends in one of"),
    (["--network", "nowhere.toml"], "network nowhere.toml: there is no such file"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD, ids=lambda value: " ".join(value)[:30])
def test_a_mistake_is_answered_in_one_sentence(words, sentence, capsys):
    steps = [] if "--steps" in words else ["--steps", "2"]
    assert command.main([*words, *steps]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


FILES = [
    ("[links.host]\nlatency=-1\nbandwidth=1", "links.host: latency=-1.0: give seconds from 0 up"),
    ("[links.host]\nlatency=0\nbandwidth=1", "talk across a rack link and says nothing of it"),
    ("", "it has no links: add"),
]


@pytest.mark.parametrize(("text", "sentence"), FILES)
def test_a_network_file_that_cannot_be_is_answered_in_one_sentence(
    text, sentence, tmp_path, capsys
):
    file = tmp_path / "lab.toml"
    file.write_text(text)
    assert command.main(["--network", str(file), "--steps", "2"]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
