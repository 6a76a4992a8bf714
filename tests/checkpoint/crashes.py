"""Kills jobs in the middle of a checkpoint. Started as a process of its own, for it forks.

python -m tests.checkpoint.crashes FOLDER TIMES

Prints how many calls to the file system one process makes, and two; how many times a job was killed
at any moment, and how many of these kills have left something half written.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gossip.checkpoint import Snapshot, layout, newest, verify
from gossip.storage.names import step_folder
from tests.checkpoint.jobs import Job, bits, copy, snapshot, whole

CALLS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "shutil.rmtree")


def at_every_call(folder: Path, processes: int) -> int:
    """A job is lost before its first call to the file system, its second, and so on."""
    Job(folder / "before", processes, keep=1).save(snapshot(100))
    calls, ended = 0, False
    steps = set()
    while not ended:
        target = copy(folder / "before", folder / "after")
        ended = (
            in_child(lambda target=target, calls=calls: lost_save(target, processes, calls)) == 0
        )
        path = newest(target)[0]
        assert bits(whole(path)) == bits(snapshot(layout.step_of(path)))
        steps.add(path.name)
        goes_on(target)
        calls += 1
    assert steps == {step_folder(100), step_folder(200)}, steps
    return calls


def lost_save(folder: Path, processes: int, calls: int) -> None:
    left = [calls]

    def lose(event: str, arguments: tuple) -> None:
        if event in CALLS:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(lose)
    Job(folder, processes, keep=1).save(snapshot(200))


def goes_on(folder: Path) -> None:
    """With any number of processes, and nothing is left of what was lost."""
    job = Job(folder, 2, keep=1)
    job.save(snapshot(300))
    assert job.said == []
    assert [path.name for path in folder.iterdir()] == [step_folder(300)]
    verify(newest(folder)[0])


def at_any_moment(folder: Path, times: int) -> int:
    """A job which saves all the time is killed, and taken up again, and killed."""
    draw, last, torn = random.Random(0), 0, 0
    for _ in range(times):
        receive, send = os.pipe()
        child = fork(lambda last=last, send=send: save_for_ever(folder, last, send))
        os.close(send)
        with os.fdopen(receive) as reports:
            reported = int(reports.readline())  # it has begun
            time.sleep(draw.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            reported = max([reported, *map(int, reports.read().split())])
        path = newest(folder)[0]
        verify(path)
        last = layout.step_of(path)
        assert last >= reported, (last, reported)
        assert whole(path).shared["step"] == last
        torn += any(entry.name.startswith(".") for entry in folder.iterdir())
    return torn


def save_for_ever(folder: Path, last: int, send: int) -> None:
    """Says each step when its checkpoint is complete."""
    job = Job(folder, 2)
    while True:
        last += 1
        rows = {"x": torch.full((4, 20_000), last)}
        state = Snapshot(step=last, rows=rows, shared={"step": torch.tensor(last)}, facts={})
        job.save(state)
        os.write(send, f"{last}\n".encode())


def in_child(function: Callable[[], None]) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(fork(function), 0)[1])


def fork(function: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        function()
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    home, kills = Path(sys.argv[1]), int(sys.argv[2])
    print(*(at_every_call(home / f"{processes}", processes) for processes in (1, 2)))
    print(kills, at_any_moment(home / "checkpoint", kills))
