"""The guards of a run by themselves, with processes that are made up."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gossip import run
from gossip.comm.shutdown import failure, overdue, stop
from gossip.comm.shutdown.failure import Position, ending_the_job
from gossip.comm.shutdown.overdue import Local
from gossip.comm.startup import asked
from gossip.errors import UserError


class Pair:
    """Process 0 of two; the other one says what `answer` makes of what this one says."""

    n, process, processes, hosted = 2, 0, 2, range(1)

    def __init__(self, answer=lambda value: value):
        self.answer = answer

    def share(self, value):
        return [value, self.answer(value)]


def elsewhere(value):
    """What a process says that has the same host name and is in another container."""
    if isinstance(value, tuple):
        return ((socket.gethostname(), "boot", "mnt:[1]", "pid:[1]"), 1, "learner 1")
    return "/nowhere" if isinstance(value, str) else value


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """What is made for watchers, which give up at once, as where the system has no pidfds."""
    script = tmp_path / "watch.py"
    script.write_text("import sys; sys.exit(1)")
    monkeypatch.setattr(failure.watch, "__file__", str(script))
    made: list[Path] = []
    new_folder = failure.watcher_folder

    def noted(num_slots):
        made.append(Path(new_folder(num_slots)))
        return str(made[-1])

    monkeypatch.setattr(failure, "watcher_folder", noted)
    return made


@pytest.mark.parametrize("step", [3, 4, 5])
def test_one_that_has_ended_is_not_waited_for_unless_it_has_come_further(step, tmp_path):
    here = [Local(1, name, Position(), tmp_path) for name in ("waits", "slow", "ended")]
    me, slow, ended = (local.position for local in here)
    me.step, slow.step, ended.step = 4, 2, step
    assert overdue.left_behind(here[0], here) is None
    ended.leave()
    gone = overdue.left_behind(here[0], here)
    assert gone is (here[2] if step <= 4 else None)
    text = overdue.message(here[0], here, "a row", 10.0)
    assert text.startswith("waits has waited 10 s at step 4 for a row: ")
    assert ("ended has ended at step" in text) == (step <= 4)
    assert ("furthest behind is slow" in text) == (step > 4)


def test_one_that_has_left_does_not_wait_in_vain_for_those_that_have(tmp_path):
    """They look at their weights together, say: only the time-out ends that."""
    here = [Local(1, name, Position(), tmp_path) for name in ("waits", "ended")]
    for local in here:
        local.position.leave()
    assert overdue.left_behind(here[0], here) is None


def test_whoever_has_left_takes_part_in_the_next_watch(tmp_path):
    """As survivors do, who leave the watcher that they had with those that are lost."""
    position, slot = Position(), memoryview(bytearray(failure.SLOT.size))
    position.step = 3
    position.leave()
    position.publish(slot)
    position.phase = "gradient"
    assert (Position(slot).step, Position(slot).left) == (3, False)


@pytest.mark.parametrize("step", [3, 4, 5])
@pytest.mark.parametrize("waits", [False, True])
def test_those_that_wait_in_different_calls_are_told_unless_one_works(step, waits, tmp_path):
    here = [Local(1, name, Position(), tmp_path) for name in ("me", "other")]
    me, other = (local.position for local in here)
    me.step, me.phase, other.step, other.phase = 4, "average()", step, "optimizer.step()"
    me.set_waits(True)
    other.set_waits(waits)
    text = overdue.message(here[0], here, "a row", 10.0)
    differ = "me is in average(), other in optimizer.step(), but all have to make the same calls"
    assert (differ in text) == waits
    behind = step < 4 or (step == 4 and not waits)
    assert ("furthest behind is other at step" in text) == behind
    other.phase = "average()"
    assert "the same calls" not in overdue.message(here[0], here, "a row", 10.0)


def test_time_counts_from_when_the_other_one_has_ended(monkeypatch):
    """Who comes first out of a collective in which all have been for long may leave at once."""
    monkeypatch.setattr(overdue, "LEFT_SECONDS", 1.0)
    monkeypatch.setattr(overdue, "LONGEST_TICK_SECONDS", 0.1)
    waiting, left, ended = overdue.Waiting(), threading.Event(), threading.Event()

    def end(what, seconds):
        ended.set()

    with overdue.watched(waiting, 1e6, left.is_set, lambda waits: None, end), waiting("a word"):
        assert not ended.wait(1.5)
        left.set()
        assert not ended.wait(0.4)
        assert ended.wait(30)


def test_a_second_run_hears_the_request_to_stop(monkeypatch):
    requests = stop.Stop(Pair(), lambda signum: None, None)
    seconds = iter(range(1000))
    monkeypatch.setattr(stop.time, "monotonic", lambda: next(seconds) * stop.ASK_SECONDS / 50)
    assert not any(requests.decide(step).stop for step in range(300))
    requests.requested = signal.SIGINT
    assert requests.decide(0).stop
    assert requests.exit_code == 130


def test_without_a_watcher_the_processes_remove_the_folder(folders):
    with ending_the_job(Pair(elsewhere), Position()):
        assert folders[0].exists()
    assert not folders[0].exists()


def test_containers_with_one_name_are_different_hosts(folders):
    with ending_the_job(Pair(elsewhere), Position()):
        assert [path.name for path in folders[0].glob("pipe*")] == ["pipe0"]


def test_processes_of_one_container_are_on_one_host(folders):
    with ending_the_job(Pair(), Position()):
        assert {path.name for path in folders[0].glob("pipe*")} == {"pipe0", "pipe1"}


@pytest.mark.parametrize("said", [False, True])
def test_a_process_that_ends_before_there_is_a_watcher_is_told_once(said, tmp_path):
    """It fails while its neighbour starts the watcher: there is one to name, or nothing to add."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = Path(failure.watcher_folder(1))
    job = {"pids": [dead.pid], "names": ["learner 0"], "parent": os.getpid()}
    job |= {"may_go_on": False, "record": None}
    if said:
        shutil.rmtree(folder)  # as the process that says why it fails does
    command = [sys.executable, "-I", "-S", failure.watch.__file__, str(folder), json.dumps(job)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == int(said)
    assert (
        told.stderr.count("learner 0 died at step 0") == len(told.stderr.splitlines()) == 1 - said
    )
    assert not folder.exists()


@pytest.fixture
def by_launcher(monkeypatch):
    """This process is one that `gossip.launch` has started, until the end of the test."""
    monkeypatch.setenv(asked.LAUNCHER, "mpich")
    monkeypatch.setattr(asked, "child_of", lambda: None)
    before = signal.signal(asked.REQUEST, signal.SIG_DFL)
    yield
    signal.signal(asked.REQUEST, before)
    asked.taken()


@pytest.mark.usefixtures("by_launcher")
def test_a_request_that_nobody_listens_to_yet_is_heard_later_and_once():
    asked.expect()
    os.kill(os.getpid(), asked.REQUEST)
    told, heard = [], threading.Event()

    def announce(signum):
        told.append(signum)
        heard.set()

    with stop.Stop(Pair(), announce, None).listening():
        assert heard.wait(30)
    with stop.Stop(Pair(), announce, None).listening():
        pass
    assert told == [asked.REQUEST]


@pytest.mark.usefixtures("by_launcher")
def test_in_a_script_the_request_is_ctrl_c_also_one_that_came_before():
    asked.expect()
    os.kill(os.getpid(), asked.REQUEST)
    with pytest.raises(KeyboardInterrupt):
        asked.interrupt()
    asked.interrupt()
    asked.expect()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), asked.REQUEST)


@pytest.mark.usefixtures("by_launcher")
def test_the_request_is_no_ones_but_the_users_without_the_launcher(monkeypatch):
    def mine(*_):
        pass

    signal.signal(asked.REQUEST, mine)
    asked.expect()
    asked.interrupt()
    assert signal.getsignal(asked.REQUEST) is mine
    signal.signal(asked.REQUEST, signal.SIG_DFL)
    monkeypatch.delenv(asked.LAUNCHER)
    asked.expect()
    asked.interrupt()
    assert signal.getsignal(asked.REQUEST) is signal.SIG_DFL


def test_last_words_that_fail_keep_no_process_alive(monkeypatch, capfd):
    """On a disk that is full, say: SIGTERM ends it all the same, and each try is one line."""
    codes, ended = [], threading.Event()
    monkeypatch.setattr(stop, "TERM_SECONDS", 0.05)
    monkeypatch.setattr(stop.os, "_exit", lambda code: (codes.append(code), ended.set()))

    def full():
        raise UserError("cannot write summary.json: No space left on device")

    with stop.Stop(Pair(), lambda signum: None, full).listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended.wait(30)
    assert codes == [128 + signal.SIGTERM]
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(line.endswith("summary.json: No space left on device") for line in told)


def test_a_second_ctrl_c_is_one_line(monkeypatch, capsys):
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("Ctrl-C was not heard")

    monkeypatch.setattr(run, "begun", interrupted)
    assert run.main(["--backend", "stacked"]) == 130
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert line == "gossip.run: ended at once by Ctrl-C"
