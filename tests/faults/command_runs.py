"""Small runs for the fault tests: how they are started, and what must be the same in two."""

import atexit
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from gossip import trace
from gossip.checkpoint import Snapshot, newest, read
from tests.faults.jobs import ROOT, START_SECONDS, Ended
from tests.machine import patience

STEPS = 40
LEARNERS = 6
SHORT = shlex.split(
    f"--dataset digits --batch-size 10 --learners {LEARNERS} --widths 8 --lr 0.1 --momentum 0.9"
    " --dtype float64 --algorithm dpsgd --monitor cheap --monitor-every 5 --checkpoint-every 5"
)
"""Of all these runs; `--steps` and `--out` are missing."""
GIT_SECONDS = 2.0
NUM_STEPS = ["--steps", str(STEPS)]
NEVER = "code:1000"
"""A deed at a call that does not come."""


class Run:
    """A run of one process; like jobs.Job, of which it has what wait_for asks for."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        deeds: Sequence[str] = (),
        *,
        output: Path | None = None,
        draws: bool = False,
        encoding: str = "",
    ) -> None:
        """Start it in `folder`; a picture takes much longer than the run itself."""
        self.folder, self.process = folder, self
        self.output = output or folder / "output"
        order = {"options": list(options), "deeds": list(deeds), "draws": draws}
        order["encoding"] = encoding
        self.pid = ask({**order, "output": str(self.output), "folder": str(folder)})
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = ask({"pid": self.pid})
        return self._code

    def send(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def end(self, limit_seconds: float = START_SECONDS) -> Ended:
        """Wait for the end; nothing of the run may be left then."""
        start, limit_seconds = time.monotonic(), patience(limit_seconds)
        while self.poll() is None:
            if time.monotonic() > start + limit_seconds:
                pytest.fail(f"still running: {self.output.read_text()}")
            time.sleep(0.01)
        seconds = time.monotonic() - start
        # Killed while it asked git for its commit, it leaves a git that ends by itself.
        while in_session(self.pid) and time.monotonic() < start + seconds + GIT_SECONDS:
            time.sleep(0.01)
        assert in_session(self.pid) == []
        return Ended(self.poll(), self.output.read_text(), seconds, self.folder)


@cache
def nursery() -> subprocess.Popen:
    """Ends with the tests, which close its stdin."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    clean |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    pipe, place = subprocess.PIPE, meeting()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(16)
        number = listener.fileno()
        command = [sys.executable, str(Path(__file__).with_name("nursery.py")), str(number)]
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=clean, cwd=ROOT, pass_fds=[number]
        )
    atexit.register(process.communicate)
    return process


def meeting() -> Path:
    """Where the processes of jobs ask the nursery to be forked."""
    return Path(_meetings(), "nursery")


@cache
def _meetings() -> str:
    folder = tempfile.mkdtemp(prefix="gossip-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def ask(order: dict) -> int:
    pipes = nursery()
    pipes.stdin.write(json.dumps(order) + "\n")
    pipes.stdin.flush()
    return json.loads(pipes.stdout.readline())


def in_session(session: int) -> list[int]:
    """Pids of the living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its = stat.read_text(errors="replace").rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it has just ended
        if int(its) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def run(folder: Path, *options: str, deeds: Sequence[str] = (), draws: bool = False) -> Ended:
    """One process from its start to its end, in the parent of its run folder."""
    return Run(folder, options, deeds, draws=draws).end()


def begin(out: Path, *more: str, deeds: Sequence[str] = (), draws: bool = False) -> Ended:
    """A new run."""
    options = [*SHORT, *NUM_STEPS, "--out", str(out), *more]
    return run(out.parent, *options, deeds=deeds, draws=draws)


def resume(out: Path, *more: str, deeds: Sequence[str] = ()) -> Ended:
    """The run in `out`, taken up again."""
    return run(out.parent, "--resume", str(out), *more, deeds=deeds)


def launch(processes: int, *options: str, deed: str = NEVER) -> list[str]:
    """The command of a job of which one process may do something."""
    module, words = stand_in(deed)
    job = [sys.executable, "-m", "gossip.launch", "-n", str(processes)]
    return [*job, "--module", module, "--", *words, *options]


def stand_in(*words: str) -> tuple[str, list[str]]:
    """The module, and its words, that mpirun starts for gossip.run with a deed, or for a script.

    What it stands in for is forked; the jobs of tests that do not ask here are started.
    """
    assert nursery().poll() is None
    return "tests.stand_in", [str(meeting()), *words]


def summary(out: Path) -> dict:
    return json.loads((out / "summary.json").read_text())


def last(out: Path) -> Snapshot:
    """The newest checkpoint of a run, of all learners."""
    return read(newest(out / "checkpoint")[0], range(LEARNERS))


def kept(out: Path) -> list[int]:
    """Steps of its checkpoints, the last first."""
    return [int(path.name.rpartition("-")[2]) for path in newest(out / "checkpoint")]


def table(out: Path) -> dict[str, np.ndarray]:
    """The trace, without the one column that no two runs have in common."""
    rows = trace.load(out)
    return {name: trace.column(rows, name) for name in rows.column_names if name != "seconds"}


def assert_same(
    out: Path, undisturbed: Path, *, exact: bool, steps: int = STEPS, but: Sequence[str] = ()
) -> None:
    """Two finished runs came to the same; bit for bit if `exact`, else to rounding.

    Columns in `but` tell of the processes, and may differ.
    """
    assert summary(out)["verdict"] == summary(undisturbed)["verdict"] == "converged"
    rows, expected = table(out), table(undisturbed)
    assert rows["step"].tolist() == list(range(steps + 1))
    assert rows.keys() == expected.keys()
    for name in rows.keys() - set(but):
        if exact:
            np.testing.assert_array_equal(rows[name], expected[name], name)
        else:
            np.testing.assert_allclose(rows[name], expected[name], 1e-9, 1e-9, err_msg=name)
    mine, theirs = last(out), last(undisturbed)
    assert mine.step == theirs.step == steps
    assert mine.rows.keys() == theirs.rows.keys()
    for name in mine.rows:
        if exact:
            assert torch.equal(mine.rows[name], theirs.rows[name]), name
        else:
            assert torch.allclose(mine.rows[name], theirs.rows[name], 1e-12, 1e-12), name
