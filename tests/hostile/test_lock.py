"""One run in a folder at a time, whatever happened to the last one."""

import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from gossip.errors import UserError
from gossip.storage import folder
from gossip.storage.lock import FILE, locked

HOLD = """
import sys
from pathlib import Path
from gossip.storage.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock until its stdin ends."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_second_run_is_refused_by_name(tmp_path, holder):
    text = json.loads((tmp_path / FILE).read_text())
    assert (text["host"], text["pid"]) == (socket.gethostname(), holder.pid)
    sentence = f"in use by process {holder.pid} on {text['host']} since {text['since'][:10]}"
    for _ in range(2):
        with pytest.raises(UserError, match=sentence), locked(tmp_path):
            pytest.fail("two runs in one folder")
    holder.communicate("")
    assert holder.returncode == 0
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path):
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()


def test_a_killed_run_holds_nothing(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / FILE).exists()
    with locked(tmp_path):
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_lets_go(tmp_path):
    with pytest.raises(RuntimeError, match="boom"), locked(tmp_path):
        raise RuntimeError("boom")
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path):
        pass


def test_the_lock_of_a_folder_that_was_made_anew_is_another_runs(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with ExitStack() as other:
        with locked(run):
            shutil.rmtree(run)
            run.mkdir()
            other.enter_context(locked(run))
        with pytest.raises(UserError, match="is in use by process"), locked(run):
            pytest.fail("two runs in one folder")


def test_a_program_that_a_run_starts_does_not_hold_its_lock(tmp_path):
    with locked(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with locked(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"[1]", b'{"host": 1}', b"[" * 5000, b'{"pid": "x"}']
)
def test_whatever_the_file_says_it_is_held_and_no_more(text, tmp_path):
    (tmp_path / FILE).write_bytes(text)
    with locked(tmp_path):
        (tmp_path / FILE).write_bytes(text)
        with pytest.raises(UserError, match=r"is in use: wait for that run"), locked(tmp_path):
            pytest.fail("two runs in one folder")


def test_a_file_that_was_removed_and_made_anew_is_the_one_that_counts(tmp_path, monkeypatch):
    """The run before ends between our opening of its file and our locking it."""
    flock, calls = fcntl.flock, []

    def late(lock, operation):
        calls.append(lock)
        if len(calls) == 1:
            (tmp_path / FILE).unlink()
        flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(tmp_path):
        assert len(calls) == 2
        with pytest.raises(UserError, match="is in use by process"), locked(tmp_path):
            pytest.fail("two runs in one folder")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
def test_where_there_are_no_locks_there_is_a_note_and_no_refusal(code, tmp_path, monkeypatch):
    def no_lock(lock, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_lock)
    notes = []
    with locked(tmp_path, notes.append):
        assert (tmp_path / FILE).exists()
    assert notes == [
        f"no lock on {tmp_path} ({os.strerror(code)}): nothing keeps a second run from writing "
        "there"
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_planted_link_or_pipe_is_neither_followed_nor_waited_for(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run" / FILE).symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match=r"cannot write .*\.lock"), locked(tmp_path / "run"):
        pytest.fail("a link was followed")
    assert (tmp_path / "precious").read_text() == "mine"
    (tmp_path / "run" / FILE).unlink()
    os.mkfifo(tmp_path / "run" / FILE)
    with pytest.raises(UserError, match="it is not a file"), locked(tmp_path / "run"):
        pytest.fail("a pipe was taken for a file")


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"cannot write .*No such file"), locked(tmp_path / "no"):
        pytest.fail("there is no such folder")


def test_a_folder_with_nothing_but_the_lock_is_a_new_one(tmp_path):
    assert folder.LOCK == FILE
    with locked(tmp_path):
        folder.create(tmp_path)
