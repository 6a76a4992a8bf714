"""Jobs of two processes in which a framework trains and one process raises; run by test_frameworks.

Usage: frameworks.py FOLDER ADAPTER|leave [...]; with `leave` nobody raises, and when both have left
they are killed, as Ray does with its workers. What takes most of such a job's time is the import of
the framework, so all jobs are forked from this process, which does with them what torchrun does: it
sets the variables, and when a process fails it ends the others. A line of JSON per job: the exit
codes, whether a process had to be killed, the seconds from the first end to the last, and what both
have said.
"""

import json
import os
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path

import torch

import gossip
from gossip.comm import connect
from tests.machine import patience
from tests.wrapper.adapters import ADAPTERS, NEEDS
from tests.wrapper.adapters import step as take_step

CULPRIT, BAD_STEP = 1, 2
TERM_SECONDS, KILL_SECONDS = 60.0, 30.0
"""How long a job may take until it fails on a quiet machine, and torchrun's patience from then."""


def learner(rank: int, adapter: str, folder: Path) -> None:
    """What each process does."""
    connect.BACKENDS["scripted"] = connect.BACKENDS["auto"]  # the adapters ask for the former
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))

    def before(t: int) -> None:
        if (t, rank) == (BAD_STEP, CULPRIT):
            raise ArithmeticError("that gradient is no good")

    around = {"around": partial(gossip.record, out=folder / adapter, every=1)}
    ADAPTERS[adapter](
        module.double(),
        lambda: [torch.optim.SGD(module.parameters(), lr=0.1)],
        "complete",
        before,
        **({} if adapter == "trainer" else around),  # its module is not wrapped
    )


def leaver(rank: int, folder: Path) -> None:
    """A process that leaves, and lives on."""
    model = gossip.Gossip(torch.nn.Linear(4, 4).double(), "complete")
    take_step(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    gossip.leave()
    model.state_dict()  # to be looked at is no step
    (folder / f"leave-{rank}").touch()
    signal.pause()


def start(rank: int, adapter: str, folder: Path, port: int, output: int) -> int:
    """The pid of a process of the job; it ends as Python does."""
    if pid := os.fork():
        return pid
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    variables = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in variables.items()})
    code = 0
    try:
        leaver(rank, folder) if adapter == "leave" else learner(rank, adapter, folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def job(adapter: str, folder: Path) -> dict:
    """As `begun`; once more, if somebody else has taken the port meanwhile."""
    ended = begun(adapter, folder)
    taken = "EADDRINUSE" in ended["text"] or "address already in use" in ended["text"].lower()
    return begun(adapter, folder) if taken else ended


def begun(adapter: str, folder: Path) -> dict:
    """Start two processes, and end one when the other has failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said, output = os.pipe()  # what they say fits into it
    living = {start(rank, adapter, folder, port, output): rank for rank in range(2)}
    os.close(output)
    codes, deadline, is_hung = [0, 0], time.monotonic() + patience(TERM_SECONDS), False
    ends = []
    while living:
        for pid, rank in list(living.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[rank] = os.waitstatus_to_exitcode(status)
                del living[pid]
                ends.append(time.monotonic())
                deadline = time.monotonic() + patience(KILL_SECONDS)
                for other in living if codes[rank] else ():
                    os.kill(other, signal.SIGTERM)
        is_hung = is_hung or time.monotonic() > deadline
        if is_hung or len(list(folder.glob(f"{adapter}-[01]"))) == 2:
            for pid in living:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    with os.fdopen(said, encoding="utf-8") as everything:
        text = everything.read()  # to its end: the watcher of the processes may have a word
    return {"codes": codes, "hung": is_hung, "seconds": ends[-1] - ends[0], "text": text}


def main(folder: Path, adapters: list[str]) -> None:
    """Import all, then job after job."""
    for adapter in adapters:
        __import__(NEEDS.get(adapter, "gossip"))
    for adapter in adapters:
        print(json.dumps({"adapter": adapter, **job(adapter, folder)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
