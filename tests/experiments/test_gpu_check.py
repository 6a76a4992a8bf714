"""make gpu-check without a GPU: what would find a mistake finds it, and every part runs."""

import csv
import json
import math
import os
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from experiments.bench import rows
from experiments.bench.overlap import COMPUTE, EXCHANGE
from experiments.gpu_check import (
    command,
    driver,
    equality,
    overlap,
    parts,
    report,
    stacked,
    switches,
)
from experiments.gpu_check.blocking import blocking
from experiments.gpu_check.cases import (
    CONSTANT,
    MEANS,
    MIXES,
    SPLIT,
    SPLITS,
    STEPS,
    STREAMING,
    TOLERANCES,
    Case,
    cases,
    tried,
)
from experiments.gpu_check.driver import fitting
from experiments.gpu_check.job import Job
from experiments.gpu_check.running import Ended, run
from experiments.gpu_check.training import MLP, Trained, resnet
from gossip.comm.stacked import Stacked
from gossip.config.compute import Compute
from gossip.errors import UserError
from tests import nursery
from tests.machine import patience
from topologies import TOPOLOGIES, build

N = 4
JOB = Job(file=Path("unused"), device="cpu", backend="gloo", learners=N, smoke=True)
MIXING = Case(what=MIXES, dtype="float64", topology="one-peer-exponential")
TRAINING = Case(
    what=STEPS, dtype="float64", topology="one-peer-exponential", algorithm="dpsgd", order="atc"
)
AVERAGING = replace(MIXING, what=MEANS)
STREAMED = replace(TRAINING, algorithm=STREAMING, order="-")


class Stale(Stacked):
    """A transport that gives the result of the mix, or the average, before."""

    before = mean_before = None

    def start_mean(self, x):
        mean = super().start_mean(x)()
        stale, self.mean_before = mean if self.mean_before is None else self.mean_before, mean
        return lambda: stale

    def start_mix(self, x, w, decode=None):
        mixed = super().start_mix(x, w)()
        stale, self.before = mixed if self.before is None else self.before, mixed
        return lambda: stale


class Lazy(Stacked):
    """A transport that reads rows when they may have been overwritten."""

    def start_mix(self, x, w, decode=None):
        before, self.x = getattr(self, "x", x), x
        return super().start_mix(before, w)

    def start_mean(self, x):
        before, self.of_mean = getattr(self, "of_mean", x), x
        return super().start_mean(before)


def called(case):
    return f"{case.what} {case.algorithm}"


@pytest.mark.parametrize("case", [MIXING, AVERAGING, TRAINING, STREAMED], ids=called)
@pytest.mark.parametrize("overlap", [True, False])
def test_a_transport_that_is_right_is_equal(case, overlap):
    result = equality.compared(JOB, Stacked(N), replace(case, overlap=overlap))
    assert result.holds
    assert result.difference == 0
    assert (result.processes, result.learners, result.tolerance) == (1, N, 1e-12)


@pytest.mark.parametrize("case", [MIXING, AVERAGING, TRAINING, STREAMED], ids=called)
@pytest.mark.parametrize("wrong", [Stale, Lazy])
def test_a_transport_that_is_wrong_is_found(case, wrong):
    if (case, wrong) == (TRAINING, Lazy):
        case = replace(case, order="awc")
    assert not equality.compared(JOB, wrong(N), case).holds


def test_a_row_that_is_not_a_number_does_not_hold():
    nan = torch.tensor([1.0, torch.nan])
    assert equality.difference(nan, torch.ones(2)).isnan()
    assert not equality.difference(nan, torch.ones(2)).item() <= 1.0


@pytest.mark.parametrize("n", [4, 16])
def test_the_battery_has_every_topology_that_moves_in_every_way(n):
    found = cases(n, (), graphs=True)
    assert len(set(found)) == len(found)
    moving = {name for name in tried(n) if build(name, n).period != 1}
    assert {"one-peer-exponential", "matching", "base", "periodic"} <= moving
    assert set(tried(n)) == moving | set(CONSTANT) <= set(TOPOLOGIES)
    ways = {(c.what, c.dtype, c.overlap, c.order) for c in found if c.topology == "matching"}
    assert len(ways) == 2 * len(TOLERANCES) * len(["mixes", "awc", "atc"])
    assert {(c.dtype, c.overlap) for c in found if c.algorithm == "ssgd"} == {
        (dtype, overlap) for dtype in TOLERANCES for overlap in (True, False)
    }
    assert {(c.algorithm, c.dtype, c.overlap) for c in found if c.algorithm == STREAMING} == {
        (STREAMING, dtype, overlap) for dtype in TOLERANCES for overlap in (True, False)
    }
    assert not any(case.what == SPLIT for case in found)  # on one process
    split = [case for case in cases(n, (), graphs=True, processes=n) if case.what == SPLIT]
    assert {(c.each, c.split, c.order, c.dtype) for c in split} == {
        (*how, order, dtype) for how in SPLITS for order in ("awc", "atc") for dtype in TOLERANCES
    }
    assert any(case.graphs for case in found)
    assert not any(case.graphs for case in cases(n, (), graphs=False))


def test_without_overlap_a_mix_has_ended_before_its_start_returns():
    class Recording(Stacked):
        ended = False

        def start_mix(self, x, w, decode=None):
            def pending():
                self.ended = True
                return x

            return pending

    comm = Recording(N)
    x = torch.ones(N, 2)
    assert blocking(comm).start_mix(x, build("ring", N).matrix(0))() is x
    assert comm.ended
    assert blocking(comm).n == N
    assert torch.equal(blocking(comm).start_mean(x)(), x[0])


def test_a_step_scales_its_loss_in_half_precision():
    """One that overflows is left out: with plain SGD the learners only average."""
    compute = Compute(device="cpu", amp="fp16")
    trained = Trained(MLP.config(2, 4, compute), Stacked(2))
    trained._scale.scale = torch.inf
    before = trained.state.x.clone()
    trained.step()
    assert torch.equal(trained.state.x, before)  # all began alike


def test_a_switch_that_is_off_here_is_no_row():
    net, compute = resnet({"width": 2}), Compute(device="cpu", channels_last=True)
    with pytest.raises(UserError, match="channels-last is off"):
        net.stacked(2, 2, compute)


def test_a_way_to_compute_that_does_not_work_is_left_out(capsys):
    sides = {
        "plain": Compute(device="cpu"),
        "again": Compute(device="cpu"),
        "on a GPU": Compute(device="cuda"),
    }
    if torch.cuda.is_available():
        pytest.skip("it works here")
    found = switches.compared(JOB, MLP, 2, 2, sides)
    assert [row.variant for row in found] == ["plain", "again"]
    assert "left out: on a GPU: device=cuda" in capsys.readouterr().err
    with pytest.raises(UserError, match="fewer than two"):
        switches.compared(JOB, MLP, 2, 2, {"plain": sides["plain"]})


@pytest.mark.parametrize(
    ("learners", "gpus", "processes"), [(16, 0, 1), (16, 1, 1), (16, 3, 2), (4, 3, 2), (4, 8, 4)]
)
def test_fewer_processes_host_equally_many_learners_each(learners, gpus, processes):
    assert fitting(learners, gpus) == processes


def test_a_part_that_hangs_is_ended(tmp_path):
    program = "import time; print('begun', flush=True); time.sleep(3600)"
    ended = run([sys.executable, "-c", program], 2.0, tmp_path / "log", os.environ)
    assert ended.code is None
    assert "begun" in ended.reason
    assert ended.seconds < patience(30)


def ended(code: int | None, log: str) -> Ended:
    return Ended(code, 1.0, log)


def test_how_a_part_has_ended(tmp_path):
    part = parts.parts(smoke=True)[0]
    refused = ended(1, "warning\ncannot: no GPU\nChildFailedError: torchrun's\n")
    assert report.judged(part, refused, tmp_path, []).result == report.NOT_RUN
    assert refused.reason == "no GPU"
    broken = ended(1, "RuntimeError: NCCL\nBAD TERMINATION\n")
    assert broken.reason == "exit code 1: RuntimeError: NCCL"
    hung = report.judged(part, ended(None, "left out: that\n"), tmp_path, ["why"])
    assert hung.result == report.FAILED
    assert hung.notes[:2] == ["why", "left out: that"]
    outcomes = [report.judged(part, one, tmp_path, []) for one in (refused, ended(0, ""))]
    assert report.exit_code(outcomes) == 0
    assert report.exit_code([*outcomes, hung]) == 1


def test_an_equality_that_does_not_hold_fails_the_check(tmp_path):
    part = parts.parts(smoke=True)[0]
    for difference in (0.0, 1.0):
        right = equality.compared(JOB, Stacked(N), MIXING)
        wrong = replace(right, difference=difference, holds=difference <= right.tolerance)
        equality.append(wrong, part.file(tmp_path))
    outcome = report.judged(part, ended(0, ""), tmp_path, [])
    assert report.exit_code([outcome]) == 1
    assert "1 equalities do not hold" in outcome.notes[0]
    assert "one-peer-exponential" in outcome.notes[0]


@pytest.mark.parametrize("mpi", [True, False])
def test_without_mpi_torchrun_starts_the_processes(monkeypatch, mpi):
    monkeypatch.setattr(parts, "_has_mpirun", lambda: mpi)
    start = parts.command(parts.probe(4), 2, ["--smoke"])
    assert ("gossip.launch" in start) == mpi
    assert ("torch.distributed.run" in start) != mpi
    at = start.index("experiments.gpu_check.probe")
    assert [word for word in start[at:] if word != "--"][1:] == ["--learners", "4", "--smoke"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nccl", "none.so"], "there is no such file"),
        (["--smoke"], "lacks tyro_of_nobody"),
        (["--only", "equalty-4"], "did you mean equality-4?"),
    ],
)
def test_what_is_missing_is_one_sentence(tmp_path, monkeypatch, capsys, options, said):
    if "lacks" in said:
        monkeypatch.setattr(command, "NEEDED", (*command.NEEDED, "tyro_of_nobody"))
    assert command.main([*options, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def here(words, seconds, log, environment) -> Ended:
    """As `run`, but a part of one process is run in this one, which has its imports already."""
    if "gossip.launch" in words:
        return run(words, seconds, log, environment)
    _, _, module, *options = words
    with (
        pytest.MonkeyPatch.context() as patch,
        log.open("w") as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        patch.setattr(sys, "argv", [module, *options])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(module, run_name="__main__")
    return Ended(end.value.code, 0.0, log.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The driver with a part of two processes, and one that cannot be run here.

    Some 10 s: two processes on two cores train with each method.
    """
    path = tmp_path_factory.mktemp("gpu-check")
    options = ["--device", "cpu", "--backend", "gloo", "--smoke", "--out", str(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "run", here)
        with nursery.forking():
            assert command.main([*options, "--only", "equality-4", "compiled"]) == 0
    return path


def test_every_part_runs_or_says_why_not(folder):
    facts = json.loads((folder / "machine.json").read_text())
    assert (facts["gpus"], facts["torch"]) == (0, torch.__version__)
    found = {part["part"]: part for part in facts["parts"]}
    results = {name: part["result"] for name, part in found.items()}
    assert results == {"equality-4": report.OK, "compiled": report.NOT_RUN}
    assert found["equality-4"]["notes"] == []  # on as many processes as it should
    assert "on a GPU only" in found["compiled"]["notes"][0]


def test_two_processes_get_what_one_gets(folder):
    with (folder / "equality-4.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(cases(4, ("a", "b"), graphs=False, processes=2))
    assert {(row["holds"], row["processes"]) for row in found} == {("True", "2")}
    learners = {(row["each"], row["split"], row["learners"]) for row in found}
    split = {("1", "fully", "2"), ("2", "fully", "1"), ("2", "tensors", "1")}
    assert learners == {("0", "-", "4")} | split
    assert all(float(row["difference"]) <= float(row["tolerance"]) for row in found)


TIMED = {
    "overlap": (partial(overlap.measure, comm=Stacked(2)), 2 * 4),
    "stacked": (stacked.measure, 2 * 2),
    "switches": (switches.measure, 4),  # of such small ResNets none with the channels last
}
"""Parts and their rows."""


@pytest.mark.parametrize("name", TIMED)
def test_times_are_the_benchmarks_rows(tmp_path, name):
    part, num_rows = TIMED[name]
    part(replace(JOB, file=tmp_path / "rows.csv"))
    found = rows.read(tmp_path / "rows.csv")
    assert len(found) == num_rows
    assert {row.table for row in found} == {name}
    assert all(row.wall_ms > 0 and row.rounds > 0 for row in found)
    assert {row.ratio for row in found if row.variant == row.base} == {1.0}
    hiding = [row for row in found if row.variant not in (COMPUTE, EXCHANGE)]
    assert all(math.isfinite(row.hidden) for row in hiding if name == "overlap")
    assert report.TITLES[name]
