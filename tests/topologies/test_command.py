"""python -m topologies: the table, the picture, and users' mistakes."""

import subprocess
import sys

import pytest

import topologies
from topologies.__main__ import main, number


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_all_topologies_are_listed_and_what_does_not_fit_says_why(capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    for name in topologies.TOPOLOGIES:
        assert name in out
    assert "not for n = 16: karate: this graph has 34 learners" in out
    ring = next(line for line in out.splitlines() if "│ ring " in line)
    assert "0.94925" in ring
    assert "0.050747" in ring


def test_named_ones_are_listed_with_bytes_and_options(capsys):
    argv = ("ring", "base", "-n", 12, "--option", "k=2", "--message-bytes", 1000)
    code, out, _ = run(capsys, *argv)
    assert code == 0
    assert "2,000" in out
    assert "3 steps" in out
    assert "star" not in out


def test_a_weight_rule_applies_to_graphs_and_negative_weights_are_noted(capsys):
    code, out, err = run(capsys, "star", "complete", "--weights", "best-constant")
    assert code == 0
    assert "note: star: some weights are negative" in err
    assert "0.88235" in out  # (n - 1) / (n + 1) = 15 / 17


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("rign",), "did you mean 'ring'"),
        (("karate",), "this graph has 34 learners, got n=16: use 34"),
        (("base", "--option", "q=3"), "base has no option 'q': use k"),
        (("base", "--option", "k=x"), "k must be a whole number, got 'x'"),
        (("base", "ring", "--option", "q=3"), "there is no option 'q': none of them has it"),
        (("complete", "--weights", "lazy"), "no option 'weights': it has weights of its own"),
        (("complete", "base", "--weights", "lazy"), "'weights': they have weights of their own"),
        (("ring", "rign"), "did you mean 'ring'"),
        (("base", "--option", "k"), "--option 'k' is not K=V"),
        (("ring", "--weights", "mh"), "unknown weights 'mh': use one of metropolis-hastings"),
        (("ring", "-n", "0"), "n must be at least 1 learner"),
        (("ring", "--message-bytes", "nan"), "message-bytes=nan: give a number from 0 up"),
        (("ring", "-n", "600", "--plot", "x.png"), "a picture of n=600 learners cannot be read"),
        (("ring", "--plot", "x.gif"), "cannot draw x.gif: a picture ends in one of .png, .pdf"),
        (("ring", "--plot", "no/x.png"), "cannot write the picture no/x.png"),
    ],
)
def test_a_mistake_ends_with_code_2_and_one_sentence(capsys, argv, sentence):
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert sentence in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("names", [("ring",), ("exponential", "one-peer-exponential", "pull")])
def test_a_picture_is_drawn(capsys, tmp_path, names):
    path = tmp_path / "w.png"
    code, out, err = run(capsys, *names, "-n", 8, "--plot", path)
    assert code == 0
    assert ("3/3  pull" in err) == (len(names) == 3)
    assert f"drawn to {path}" in out
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_the_module_runs_and_imports_neither_torch_nor_matplotlib():
    program = (
        "import sys, topologies; "
        "heavy = {'torch', 'mpi4py', 'gossip', 'matplotlib', 'rich', 'tyro', 'cvxpy'}; "
        "print(heavy & set(sys.modules))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    command = [sys.executable, "-m", "topologies", "rign"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_numbers_near_one_show_their_distance():
    assert number(1 - 7.8e-7) == "1 - 7.8e-07"
    assert number(1e-16) == "0"
    assert number(0.5) == "0.5"
