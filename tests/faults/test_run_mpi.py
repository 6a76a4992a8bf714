"""The command itself in two processes: how it ends, and what it leaves."""

import contextlib
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from gossip import trace
from gossip.errors import UserError
from tests.faults.command_runs import NEVER, RUN, launch
from tests.faults.jobs import (
    AS_USERS,
    KILLED,
    MPIRUN,
    NEED_MPI,
    START_SECONDS,
    Ended,
    pid_of,
    wait_for,
)

pytest.importorskip("mpi4py")
pytestmark = [*NEED_MPI, pytest.mark.usefixtures("forking")]

LAUNCH = [sys.executable, "-m", "gossip.launch", "-n"]
OPTIONS = shlex.split("--dataset digits --batch-size 10 --learners 4 --widths 8 --lr 0.1")
FILES = {"config.toml", "trace.arrows", "summary.json", "figure.png", "checkpoint"}
LONG = shlex.split(
    "--steps 300 --monitor-every 50"
    " --straggler constant --straggler-options s=2 learners=0 --straggler-seconds 0.01"
)
"""Seconds for each algorithm, nearly all of which its processes sleep."""


def mpirun(*command: str) -> list[str]:
    return [MPIRUN, "-n", "2", *command]


def without_picture() -> list[str]:
    """The same command, but for the picture at the end."""
    return [sys.executable, *RUN, NEVER]


def has_rows(folder: Path) -> bool:
    with contextlib.suppress(UserError):  # not there yet, or without its head
        return trace.load(folder).num_rows > 0
    return False


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def mistake(ended: Ended) -> str:
    """The one sentence that a mistake is told in."""
    assert ended.code == 2
    assert "Traceback" not in ended.text
    assert "BAD TERMINATION" not in ended.text
    [line] = ended.told()
    return line


def test_a_study_leaves_one_table_and_complete_folders(start_command, tmp_path):
    """As users have it: with all of torch, and pictures."""
    out = tmp_path / "out"
    command = [*LAUNCH, "2", *OPTIONS, "--steps", "20", "--out", str(out)]
    ended = start_command(command, **AS_USERS).end(START_SECONDS)
    assert ended.code == 0
    assert ended.text.count("verdict") == 1
    assert ended.text.count("2 processes") == 1
    for name in ("dpsgd", "ssgd"):
        assert {path.name for path in (out / name).iterdir()} == FILES
        assert trace.load(out / name).num_rows == 21
        assert (summary(out / name)["processes"], summary(out / name)["backend"]) == (2, "mpi")


def test_ctrl_c_is_heard_in_the_second_algorithm(start_command, tmp_path):
    out = tmp_path / "out"
    job = start_command(launch(2, *OPTIONS, *LONG, "--out", str(out)))
    wait_for(job, lambda: has_rows(out / "ssgd"))
    job.process.send_signal(signal.SIGINT)
    ended = job.end()
    assert ended.code == 130
    assert len(ended.told()) == 1
    assert summary(out / "dpsgd")["verdict"] != "interrupted"
    assert summary(out / "ssgd")["verdict"] == "interrupted"
    assert summary(out / "ssgd")["steps"] < summary(out / "dpsgd")["steps"] == 300


def test_a_request_that_comes_before_the_run_listens_stops_it(start_command, tmp_path):
    """MPI's start puts a handler of its own in place, and what it hears nobody is told."""
    out = tmp_path / "out"
    command = launch(2, *OPTIONS, *LONG, "--out", str(out), deed="meeting:1:USR1:1")
    ended = start_command(command).end(START_SECONDS)
    assert ended.code == 130
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1 on host ")
    assert summary(out / "dpsgd")["verdict"] == "interrupted"
    assert not (out / "ssgd").exists()


@pytest.mark.one_mpi
def test_a_killed_process_leaves_a_readable_trace(start_command, tmp_path):
    out = tmp_path / "out"
    options = [*OPTIONS, "--steps", "100000", "--algorithm", "dpsgd", "--out", str(out)]
    job = start_command(mpirun(*without_picture(), *options))
    wait_for(job, lambda: has_rows(out))
    os.kill(pid_of(job, 1), signal.SIGKILL)
    ended = job.end()
    assert ended.code == KILLED
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1 on host ")
    assert "died at step " in line
    assert trace.load(out).num_rows > 0


@pytest.mark.one_mpi
def test_processes_with_different_configs_are_told_so(start_command):
    one, other = [*without_picture(), *OPTIONS], [*without_picture(), *OPTIONS, "--steps", "3"]
    command = [MPIRUN, "-n", "1", *one, ":", "-n", "1", *other]
    line = mistake(start_command(command).end(START_SECONDS))
    assert "the processes disagree about config: " in line


@pytest.mark.one_mpi
def test_a_config_that_one_process_misses_ends_all(start_command, tmp_path):
    (tmp_path / "good.toml").write_text("steps = 3\n")
    one, other = ([*without_picture(), "--config", f"{name}.toml"] for name in ("good", "missing"))
    command = [MPIRUN, "-n", "1", *one, ":", "-n", "1", *other]
    line = mistake(start_command(command).end(START_SECONDS))
    assert line.startswith("gossip.run: on process 1: cannot read the config file missing.toml")


@pytest.mark.one_mpi
def test_an_option_that_one_process_does_not_know_ends_all(start_command):
    one, other = [*without_picture(), *OPTIONS], [*without_picture(), "--learnes", "4"]
    command = [MPIRUN, "-n", "1", *one, ":", "-n", "1", *other]
    ended = start_command(command).end(START_SECONDS)
    assert ended.code == 2
    assert ended.text.count("on process 1:") == 1
    assert ended.text.count("Unrecognized options: --learnes") == 1


@pytest.mark.one_mpi
def test_processes_that_do_not_divide_the_learners_are_told_once(start_command):
    line = mistake(start_command([*LAUNCH, "2", "--learners", "15"]).end(START_SECONDS))
    assert "15 learners on 2 processes" in line


@pytest.mark.one_mpi
def test_stacked_in_two_processes_is_told_once(start_command):
    line = mistake(
        start_command(mpirun(*without_picture(), "--backend", "stacked")).end(START_SECONDS)
    )
    assert "backend 'stacked' keeps all learners in one process, but 2 were started" in line


@pytest.mark.one_mpi
def test_help_is_printed_once(start_command):
    ended = start_command(mpirun(*without_picture(), "--help")).end(START_SECONDS)
    assert ended.code == 0
    assert ended.text.count("usage: python -m gossip.run") == 1
