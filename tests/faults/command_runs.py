"""Small runs for the fault tests: how they are started, and what must be the same in two."""

import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from gossip import trace
from gossip.checkpoint import Snapshot, newest, read
from tests import nursery
from tests.faults.deeds import PICTURE
from tests.faults.jobs import START_SECONDS, Ended
from tests.machine import patience
from tests.stand_in import ask, ended, place

STEPS = 40
LEARNERS = 6
SHORT = shlex.split(
    f"--dataset digits --batch-size 10 --learners {LEARNERS} --widths 8 --lr 0.1 --momentum 0.9"
    " --dtype float64 --algorithm dpsgd --monitor cheap --monitor-every 5 --checkpoint-every 5"
)
"""Of all these runs; `--steps` and `--out` are missing."""
GIT_SECONDS = 2.0
NUM_STEPS = ["--steps", str(STEPS)]
DEEDS = "tests.faults.deeds"
RUN = ("-m", DEEDS)
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
        at = place(nursery.folder())
        environment = dict(os.environ) | ({"PYTHONIOENCODING": encoding} if encoding else {})
        words = [*RUN, ",".join([NEVER, *deeds, *([PICTURE] if draws else [])]), *options]
        with Path(os.devnull).open() as nothing, self.output.open("wb") as said:
            files = {0: nothing.fileno(), 1: said.fileno(), 2: said.fileno()}
            self.child = ask(at, words, files, environment, str(folder))
        self.child.server.setblocking(False)
        self.pid = self.child.pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            with contextlib.suppress(BlockingIOError):
                self._code = ended(self.child)
                self.child.server.close()
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
        while in_group(self.pid) and time.monotonic() < start + seconds + GIT_SECONDS:
            time.sleep(0.01)
        assert in_group(self.pid) == []
        return Ended(self.poll(), self.output.read_text(), seconds, self.folder)


def in_group(group: int) -> list[int]:
    """Pids of the living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it has just ended
        if int(its) == group and state != "Z":
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
    job = [sys.executable, "-m", "gossip.launch", "-n", str(processes)]
    return [*job, "--module", DEEDS, "--", deed, *options]


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
