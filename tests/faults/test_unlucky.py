"""Full disks, lost folders, damaged files and other bad luck: one sentence, and no loss."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from gossip import trace
from gossip.checkpoint import layout, newest
from gossip.storage import glance
from gossip.storage.names import MANIFEST
from tests.faults.command_runs import (
    NUM_STEPS,
    SHORT,
    STEPS,
    Run,
    assert_same,
    begin,
    kept,
    last,
    resume,
    summary,
    table,
)
from tests.faults.jobs import Ended, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

BUSY = ["--straggler", "constant", "--straggler-options", "s=2", "learners=0"]
BUSY += ["--straggler-seconds", "0.03"]
"""Slow enough for something to happen to it on its way."""


def mistake(ended: Ended) -> str:
    """The one sentence that a mistake is told in."""
    assert ended.code == 2, ended.text
    assert "Traceback" not in ended.text
    [line] = ended.told()
    return line.removeprefix("gossip.run: ")


@contextmanager
def disk(path: Path, size: str):
    """A file system of its own, of so many bytes."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(file: Path) -> None:
    """Use up the last page of a disk."""
    with file.open("ab", buffering=0) as out, suppress(OSError):
        while True:
            out.write(b"\0" * 4096)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run that nothing happened to."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    assert begin(out).code == 0
    return out


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory):
    """A run that was killed at step 28, with checkpoints of two steps."""
    out = tmp_path_factory.mktemp("killed") / "run"
    assert begin(out, "--checkpoint-keep", "3", deeds=["gradient:29"]).code == -signal.SIGKILL
    return out


@pytest.fixture
def killed(killed_once, tmp_path):
    """A copy of it, to do something to."""
    return shutil.copytree(killed_once, tmp_path / "run")


class TestDisk:
    def start(self, tmp_path, out, *more):
        output = tmp_path / "output"
        options = [*SHORT, *NUM_STEPS, *BUSY, "--out", str(out), *more]
        return Run(tmp_path, options, output=output)

    def test_a_checkpoint_without_room_is_a_sentence_and_the_run_goes_on(self, tmp_path):
        """Two checkpoints of 500 kB on a disk of 1 MB, which has room for the trace."""
        with disk(tmp_path / "disk", "1m") as full:
            out = full / "run"
            going = self.start(tmp_path, out, "--widths", "150")
            ended = going.end()
            assert ended.code == 0, ended.text
            failed = [line for line in ended.text.splitlines() if "cannot keep the" in line]
            assert failed
            assert all("No space left on device" in line for line in failed)
            assert "Traceback" not in ended.text
            assert trace.load(out)["step"].to_pylist() == list(range(STEPS + 1))
            assert summary(out)["verdict"] == "converged"

    def test_a_trace_without_room_ends_the_run_which_goes_on_when_there_is(
        self, tmp_path, undisturbed
    ):
        with disk(tmp_path / "disk", "1m") as full:
            out = full / "run"
            going = self.start(tmp_path, out)
            wait_for(going, lambda: glance.checkpoints(out))
            while going.poll() is None:  # whatever the run makes room for by itself, too
                fill(full / "rubbish")
            line = mistake(going.end())
            assert line.startswith((f"cannot write the trace {out}/", f"cannot write {out}/"))
            assert line.endswith(": No space left on device")
            rows = trace.load(out).num_rows
            assert 0 < rows < STEPS
            again = Run(tmp_path, ["--resume", str(out)]).end()
            assert mistake(again).endswith(": No space left on device")
            assert trace.load(out).num_rows == rows
            (full / "rubbish").unlink()
            assert resume(out).code == 0
            assert_same(out, undisturbed, exact=True)

    def test_a_new_run_on_a_read_only_disk(self, tmp_path):
        with disk(tmp_path / "disk", "1m") as locked:
            subprocess.run(["mount", "-o", "remount,ro", str(locked)], check=True)
            options = [*SHORT, *NUM_STEPS, "--out", str(locked / "run")]
            line = mistake(Run(tmp_path, options).end())
            assert line == f"cannot write to run folder {locked / 'run'}: Read-only file system"

    def test_going_on_on_a_read_only_disk(self, tmp_path, killed_once):
        with disk(tmp_path / "disk", "4m") as locked:
            out = shutil.copytree(killed_once, locked / "run")
            subprocess.run(["mount", "-o", "remount,ro", str(locked)], check=True)
            line = mistake(Run(tmp_path, ["--resume", str(out)]).end())
            assert line == f"cannot write {out / '.lock'}: Read-only file system"

    def test_the_run_folder_is_removed(self, tmp_path):
        out = tmp_path / "run"
        going = self.start(tmp_path, out)
        wait_for(going, lambda: glance.checkpoints(out))
        shutil.rmtree(out)
        line = mistake(going.end())
        assert line == f"{out} was removed while the run went on: what it recorded is lost"


class TestTwoRunsInOneFolder:
    def test_the_second_is_refused_and_the_first_unharmed(self, tmp_path, undisturbed):
        out = tmp_path / "run"
        going = Run(tmp_path, [*SHORT, *NUM_STEPS, *BUSY, "--out", str(out)])
        wait_for(going, lambda: glance.checkpoints(out))
        os.kill(going.pid, signal.SIGSTOP)  # however long the others take to start
        second = tmp_path / "second"
        second.mkdir()
        line = mistake(Run(second, ["--resume", str(out)]).end())
        assert line.startswith(f"run folder {out} is in use by process {going.pid} on ")
        line = mistake(Run(second, [*SHORT, *NUM_STEPS, "--out", str(out)]).end())
        assert line.startswith(f"run folder {out} exists already")
        assert going.poll() is None
        os.kill(going.pid, signal.SIGCONT)
        assert going.end().code == 0
        assert_same(out, undisturbed, exact=True)


class TestWhatToGoOnWith:
    def test_no_run_there(self, tmp_path):
        line = mistake(resume(tmp_path / "nothing"))
        assert line == f"--resume {tmp_path / 'nothing'}: no run there, as there is no config.toml"

    def test_a_finished_run_is_left_alone(self, undisturbed, tmp_path):
        out = shutil.copytree(undisturbed, tmp_path / "run")
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        ended = resume(out)
        assert ended.code == 0
        assert "dpsgd: finished already" in ended.text
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    def test_more_steps_for_a_finished_run(self, undisturbed, tmp_path):
        out, longer = shutil.copytree(undisturbed, tmp_path / "run"), tmp_path / "longer" / "run"
        longer.parent.mkdir()
        assert begin(longer, "--steps", "57").code == 0
        assert resume(out, "--steps", "57").code == 0
        assert torch.equal(last(out).rows["x"], last(longer).rows["x"])
        rows, expected = table(out), table(longer)
        assert rows["step"].tolist() == list(range(58))
        # What was the last step once has been monitored; losses are averaged some at a time.
        others = np.arange(58) != STEPS - 1
        for name in rows:
            np.testing.assert_allclose(rows[name][others], expected[name][others], 1e-12)

    @pytest.mark.parametrize(
        ("option", "says"),
        [
            (("--lr", "0.2"), "rate.lr: 0.1 -> 0.2"),
            (("--seed", "7"), "seed: 0 -> 7"),
            (("--learners", "3"), "gossip.learners: 6 -> 3"),
        ],
    )
    def test_other_options_are_named(self, killed, option, says):
        assert f"with other options, {says}" in mistake(resume(killed, *option))

    def test_the_newest_checkpoint_is_cut_off(self, killed, undisturbed):
        before, file = kept(killed), next(newest(killed / "checkpoint")[0].glob("block-*"))
        file.write_bytes(file.read_bytes()[:-100])
        self.falls_back(killed, undisturbed, file, before)

    @pytest.mark.parametrize("name", ["block-00000.safetensors", layout.SHARED, MANIFEST])
    def test_a_bit_of_the_newest_checkpoint_is_flipped(self, killed, undisturbed, name):
        before, file = kept(killed), newest(killed / "checkpoint")[0] / name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        self.falls_back(killed, undisturbed, file, before)

    def falls_back(self, out, undisturbed, file, before):
        ended = resume(out)
        assert ended.code == 0, ended.text
        [said] = [line for line in ended.text.splitlines() if "trying the one before" in line]
        assert str(file) in said
        assert f"goes on at step {before[1]} of {STEPS}" in ended.text
        assert_same(out, undisturbed, exact=True)

    def test_all_checkpoints_are_damaged(self, killed):
        for path in newest(killed / "checkpoint"):
            (path / MANIFEST).write_text("{}")
        ended = resume(killed)
        assert mistake(ended).startswith(f"no checkpoint of {killed} can be read: ")
        assert trace.load(killed).num_rows > 0

    def test_the_trace_is_shorter_than_the_checkpoint_says(self, killed):
        file = killed / "trace.arrows"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        left = trace.load(killed).num_rows
        line = mistake(resume(killed))
        assert line.startswith(f"the trace {file} has {left} rows, fewer than the ")

    def test_a_checkpoint_of_another_run(self, killed, tmp_path):
        other = tmp_path / "other" / "run"
        other.parent.mkdir()
        assert begin(other, "--seed", "7").code == 0
        shutil.copytree(newest(other / "checkpoint")[0], killed / "checkpoint" / "step-000000040")
        line = mistake(resume(killed))
        assert line.endswith(
            "the model or its initial weights differ from those that the run was begun with"
        )

    def test_other_code_is_a_note(self, killed, undisturbed):
        ended = resume(killed, deeds=["code:1:release"])
        assert ended.code == 0
        assert "the code has changed since this run was begun" in ended.text
        assert_same(killed, undisturbed, exact=True)


def test_a_clock_that_goes_back_an_hour(tmp_path, undisturbed):
    out = tmp_path / "run"
    ended = begin(out, deeds=["gradient:9:hour", "gradient:29"])
    assert ended.code == -signal.SIGKILL
    assert kept(out)[0] >= 15
    ended = resume(out, deeds=["gradient:3:hour"])
    assert ended.code == 0
    assert_same(out, undisturbed, exact=True)
