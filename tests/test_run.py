"""The command as a user meets it: what it writes, what it refuses, how it ends."""

import json
import math
import shlex
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from torch import nn

from gossip import trace
from gossip.config import Averaging, Config
from gossip.data import sources
from gossip.run import main, parse
from gossip.study import notes

pytestmark = pytest.mark.usefixtures("no_pictures")

DIGITS = ["--dataset", "digits", "--batch-size", "10", "--learners", "4", "--widths", "8"]
SHORT = [*DIGITS, "--steps", "11", "--monitor-every", "4", "--lr", "0.3"]


@pytest.mark.pictures
def test_a_study_leaves_a_folder_per_algorithm_a_table_and_pictures(tmp_path, capsys):
    out = tmp_path / "study"
    assert main([*SHORT, "--out", str(out)]) == 0
    table = capsys.readouterr().out
    assert "DPSGD" in table
    assert "SSGD" in table
    assert "not run" not in table
    assert (out / "figure.png").stat().st_size > 10_000
    for name in ("dpsgd", "ssgd"):
        files = {path.name for path in (out / name).iterdir()}
        expected = {"config.toml", "trace.arrows", "summary.json", "figure.png", "checkpoint"}
        assert files == expected


def test_the_summary_and_the_trace_hold_what_is_promised(tmp_path):
    assert main([*SHORT, "--algorithm", "dpsgd", "--monitor", "full", "--out", str(tmp_path)]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    promised = set(
        shlex.split(
            "verdict test_error train_loss steps learners processes backend algorithm "
            "topology bytes_sent_per_learner versions commit"
        )
    )
    assert promised <= summary.keys()
    phases = ["data", "gradient", "communication_wait", "optimizer", "monitor", "evaluation"]
    assert set(phases) <= summary["wall_seconds"].keys()
    assert {"source", "sha256"} <= summary["dataset"].keys()
    # ring of 4: two messages of d float32 a step
    assert summary["bytes_sent_per_learner"] == 11 * 2 * 4 * summary["parameters"]

    table = trace.load(tmp_path)
    columns = set(
        shlex.split(
            "step epoch lr train_loss test_error alpha_e sigma_w2 sigma_w2_mixed delta "
            "delta_s delta2 delta2_hessian grad_norm consensus_distance"
        )
    )
    assert columns <= set(table.column_names)
    assert trace.column(table, "step").tolist() == list(range(12))
    assert np.isfinite(trace.column(table, "train_loss")[:-1]).all()
    monitored = np.flatnonzero(np.isfinite(trace.column(table, "alpha_e")))
    assert monitored.tolist() == [0, 4, 8, 10]
    assert trace.column(table, "test_error")[-1] == summary["test_error"]


def numbers(folder):
    """The trace without the wall time, which is the one thing that no seed decides."""
    return trace.load(folder).drop_columns(["seconds"])


def test_a_recorded_config_runs_again_to_the_same_bits(tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    options = ["--algorithm", "ssgd-star", "--topology", "matching", "--replacement"]
    assert main([*SHORT, *options, "--out", str(first)]) == 0
    assert main(["--config", str(first / "config.toml"), "--out", str(again)]) == 0
    assert numbers(first).equals(numbers(again))


def test_algorithms_share_start_and_batches(tmp_path):
    assert main([*SHORT, "--out", str(tmp_path)]) == 0
    losses = [
        trace.column(trace.load(tmp_path / name), "train_loss")[0] for name in ("dpsgd", "ssgd")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize("learners", [1, 2, 3])
def test_few_learners_work(tmp_path, learners):
    options = ["--learners", str(learners), "--algorithm", "dpsgd", "ssgd", "ssgd-star"]
    assert main([*SHORT, *options, "--monitor", "full", "--out", str(tmp_path)]) == 0


def test_one_learner_is_plain_sgd_whatever_the_algorithm(tmp_path):
    options = ["--learners", "1", "--algorithm", "dpsgd", "ssgd", "ssgd-star", "--noise-std", "0"]
    assert main([*SHORT, *options, "--out", str(tmp_path)]) == 0
    runs = [trace.load(tmp_path / name) for name in ("dpsgd", "ssgd", "ssgd-star")]
    for name in ("train_loss", "test_error", "alpha_e"):
        first, *others = (trace.column(run, name) for run in runs)
        for other in others:
            np.testing.assert_array_equal(other, first)


def test_a_run_that_blows_up_is_diverged_and_keeps_its_trace(tmp_path):
    assert main([*SHORT, "--algorithm", "dpsgd", "--lr", "1e30", "--out", str(tmp_path)]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["verdict"] == "diverged"
    assert "not finite" in summary["verdict_reason"]
    assert 0 < summary["diverged_at_step"] < 11
    assert trace.load(tmp_path).num_rows > summary["diverged_at_step"]


BAD = {
    "model option": (
        ["--model", "cnn", "--model-options", "width=abc"],
        "model 'cnn': width must be a whole number, got 'abc'",
    ),
    "unknown model option": (
        ["--model-options", "activaton=tanh"],
        "model 'mlp' has no option 'activaton': did you mean activation?; it has widths",
    ),
    "BatchNorm on one sample": (
        [*("--model", "resnet18", "--model-options", "width=2"), "--batch-size", "1"],
        "too few samples for the model's BatchNorm",
    ),
    "share seed": (["--scaling", "lena", "--scaling-options", "share_seed=-1"], "share_seed=-1"),
    "scaling option": (["--scaling", "linear", "--scaling-options", "clip=none"], "no option"),
    "LEGW without a baseline": (["--warmup", "legw"], "--baseline-batch"),
    "tokens for images": (["--model", "word-lstm"], "word-lstm"),
    "learners 5 on a hypercube": (["--learners", "5", "--topology", "hypercube"], "power of two"),
    "unknown topology": (["--topology", "rign"], "did you mean 'ring'"),
    "unknown topology option": (["--topology-options", "k=3"], "k"),
    "option without a value": (["--topology-options", "k"], "key=value"),
    "batch larger than the shard": (
        ["--partition", "iid", "--batch-size", "400"],
        "400",
    ),
    "skew that empties a shard": (
        ["--partition", "dirichlet", "--concentration", "0.0001"],
        "learner",
    ),
    "missing dataset": (
        ["--dataset", "fashion-mnist"],
        "python -m gossip.data fetch fashion-mnist",
    ),
    "momentum for adam": (["--optimizer", "adam", "--momentum", "0.9"], "has no momentum"),
    "unknown optimizer option": (
        ["--optimizer", "adam", "--optimizer-options", "epz=1"],
        "did you mean eps?; it has betas,",
    ),
    "module that does not exist": (["--model", "nowhere:net"], "cannot import 'nowhere'"),
    "function that does not exist": (["--model", "math:net"], "has no 'net'"),
    "model with other arguments": (["--model", "json:dumps"], "(input_shape, num_classes)"),
    "model without enough outputs": (["--model", "tests.test_run:too_narrow"], "needed are logits"),
    "model that is none": (["--model", "operator:eq"], "returned bool, not a torch.nn.Module"),
    "bad optimizer option": (
        ["--optimizer", "adam", "--optimizer-options", "eps=-3"],
        "Invalid epsilon",
    ),
    "neither true nor false": (
        ["--optimizer", "lamb", "--optimizer-options", "bias_correction=no"],
        "bias_correction=no: give true or false",
    ),
    "half an iteration of muon": (
        ["--optimizer", "muon", "--optimizer-options", "iterations=2.5"],
        "iterations is 2.5: it must be a whole number",
    ),
    "momentum among the options": (
        ["--algorithm", "qg-dsgdm", "--optimizer-options", "momentum=0.9"],
        "optimizer option momentum=0.9 has a flag: give --momentum 0.9",
    ),
    "weight decay among the options": (
        ["--optimizer-options", "weight_decay=1e-4"],
        "give --weight-decay 1e-4",
    ),
    "unknown option of a scaling": (["--scaling-options", "clip=both"], "has no option 'clip'"),
    "warm-up without a baseline": (["--warmup", "legw"], "--baseline-batch"),
    "baseline larger than the batch": (
        ["--scaling", "adascale", "--baseline-batch", "1000"],
        "choose a smaller --baseline-batch",
    ),
    "missing config": (["--config", "nowhere.toml"], "cannot read the config file"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_sentence_and_exit_code_2(case, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path / "empty"))
    options, complaint = BAD[case]
    assert main([*SHORT, *options, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists(), "a refused run leaves nothing behind"


@pytest.mark.parametrize("options", [["--lr", "-1"], ["--stepz", "3"], ["--learners", "0"]])
def test_a_bad_flag_is_explained_without_a_traceback(options, capsys):
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert options[0].lstrip("-") in said.err + said.out
    assert "Traceback" not in said.err + said.out


RULES = {
    "lena": "--scaling lena --warmup state-aware --decay exponential",
    "adascale": "--scaling adascale --scaling-options progress=tau --warmup fixed",
    "date": "--scaling sqrt --baseline-batch 10 --warmup legw --warmup-epochs 0.02 "
    "--decay roller-coaster --layer-ratio quantile",
}


@pytest.mark.parametrize("case", RULES)
def test_a_rule_is_recorded_with_all_its_options(case, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    said = [*SHORT, "--epochs", "0.2", "--algorithm", "ssgd", *RULES[case].split()]
    assert main([*said, "--out", str(first)]) == 0
    assert main(["--config", str(first / "config.toml"), "--out", str(again)]) == 0
    assert numbers(first).equals(numbers(again))
    table = trace.load(first)
    columns = {name for name in table.column_names if np.isfinite(trace.column(table, name)).any()}
    assert {"scale", "warm"} <= columns
    assert ("tau" in columns) == (case == "adascale")
    assert ("grad_var/1.weight" in columns) == (case != "date")
    assert ("layer_ratio/1.weight" in columns) == (case == "date")
    assert ("warmup_end/1.weight" in columns) == (case == "lena")
    steps = 0.2 * 1437 / 40
    taken = json.loads((first / "summary.json").read_text())["steps"]
    most = 4 * steps if case == "adascale" else math.ceil(steps)
    assert math.ceil(steps) <= taken <= most


def test_an_existing_run_folder_is_not_touched(tmp_path, capsys):
    (tmp_path / "precious").write_text("x")
    assert main([*SHORT, "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_an_unwritable_run_folder_is_said(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert main([*SHORT, "--out", str(tmp_path / "file" / "below")]) == 2
    assert "cannot write" in capsys.readouterr().err


def net(input_shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))


def too_narrow(input_shape, num_classes):
    return net(input_shape, num_classes - 1)


def arrays():
    images, labels = sources.digits()
    images, labels = images.astype(np.float32), labels.astype(int)
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def two_rings(n):
    """A user's topology: neighbours at distance 1 and 3."""
    return nx.circulant_graph(n, [1, 3])


def test_a_users_own_model_data_and_topology(tmp_path):
    own = [
        *("--model", "tests.test_run:net", "--dataset", "tests.test_run:arrays"),
        *("--topology", "tests.test_run:two_rings", "--learners", "8"),
    ]
    assert main([*SHORT, *own, "--algorithm", "dpsgd", "--out", str(tmp_path / "run")]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["parameters"] == 64 * 10 + 10
    assert summary["messages_per_learner"] == 11 * 4
    rerun = ["--config", str(tmp_path / "run" / "config.toml"), *own]
    assert main([*rerun, "--out", str(tmp_path / "again")]) == 0
    assert numbers(tmp_path / "run").equals(numbers(tmp_path / "again"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("0.5,0.5,0,0\n0.5,0.5,0,0\n0,0,0.5,0.5\n0,0,0.5,0.5\n", "2 groups that never reach"),
        ("1,0,0,0\n1,0,0,0\n0,1,0,0\n0,0,1,0\n", "cannot preserve the mean"),
        ("0.5,0.4,0,0\n0,1,0,0\n0,0,1,0\n0,0,0,1\n", "row"),
        ("nan,0,0,1\n0,1,0,0\n0,0,1,0\n1,0,0,0\n", "finite"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_one_sentence(content, complaint, tmp_path, capsys):
    path = tmp_path / "w.csv"
    path.write_text(content)
    assert main([*SHORT, "--topology", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_a_run_does_not_depend_on_the_one_before_it(tmp_path):
    full = [*SHORT, "--monitor", "full"]
    assert main([*full, "--algorithm", "dpsgd", "ssgd", "--out", str(tmp_path / "both")]) == 0
    assert main([*full, "--algorithm", "ssgd", "--out", str(tmp_path / "alone")]) == 0
    assert numbers(tmp_path / "both" / "ssgd").equals(numbers(tmp_path / "alone"))


def test_options_without_effect_are_said(tmp_path, capsys):
    options = ["--warmup-share", "0.2", "--layer-ratio-limits", "5", "6", "--algorithm", "ssgd"]
    options += ["--wire", "bf16"]
    assert main([*SHORT, *options, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "note: warmup-share has no effect with --warmup none" in said
    assert "note: layer-ratio-limits has no effect with --layer-ratio off" in said
    assert "note: wire has no effect with --algorithm ssgd" in said
    assert said.count("no effect") == 3


def test_options_that_nobody_reads_are_said():
    options = shlex.split("--algorithm dpsgd --noise-std 0.2 --model lenet --widths 3 --epochs 0.1")
    config = parse([*SHORT, "--order", "atc", *options]).options
    assert list(notes.idle(config, 1)) == [
        "noise-std has no effect with --algorithm dpsgd",
        "widths has no effect with --model lenet",
        "steps has no effect with --epochs",
    ]
    config = replace(Config(), algorithm=("ssgd",), gossip=Averaging(order="atc", backend="gloo"))
    first, second = notes.idle(config, 1)
    assert first == "order has no effect with --algorithm ssgd"
    assert second.startswith("backend has no effect with one process")
    assert not list(notes.idle(Config(), 2))


@pytest.mark.parametrize(
    ("name", "first"),
    [("diloco", 100), ("diloco-eager", 200), ("streaming-diloco", 101), ("gasloc", 100)],
)
def test_rounds_that_never_end_are_said(name, first):
    config = replace(Config(), algorithm=("dpsgd", name, "post-local-sgd"))
    (note,) = notes.endless(config, first - 1)
    assert note.startswith(f"algorithm {name} averages after {first} steps and the run has")
    assert not list(notes.endless(config, first))


def test_a_matrix_that_was_rounded_is_put_right_and_a_note_says_so(tmp_path, capsys):
    ring = np.roll(np.eye(4), 1, axis=0) + np.eye(4) + np.roll(np.eye(4), -1, axis=0)
    np.save(tmp_path / "w.npy", (ring / 3).astype(np.float32))
    own = [
        "--topology",
        str(tmp_path / "w.npy"),
        "--algorithm",
        "dpsgd",
        "--out",
        str(tmp_path / "run"),
    ]
    assert main([*SHORT, *own]) == 0
    said = capsys.readouterr().err
    assert said.count("numbers are rounded") == 1
    assert "gossip.run: note: w.npy: its numbers are rounded, a sum differs from 1 by" in said
