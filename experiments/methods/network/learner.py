"""One learner on one host: trains as it is asked to, and says how long that took and what it sent.

Started by experiments.methods.network.measured. Reads a line of JSON for each training.
"""

import gc
import json
import sys
import time
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from experiments.common.learners import READY
from experiments.methods.network.size import FULL, SMOKE, Size
from experiments.methods.network.theirs import theirs
from experiments.methods.network.training import Training, ours
from experiments.methods.network.ways import OURS, compared
from gossip.comm.base import Communicator
from gossip.comm.transports.gloo import Gloo
from gossip.malloc import keep_memory

INTERFACES = Path("/proc/self/net/dev")
SENT = 8
"""Column of the bytes that an interface has sent, behind its name."""


class Question(msgspec.Struct, kw_only=True):
    """A training that is asked for."""

    smoke: bool
    task: str
    """Name of the size."""
    way: str
    trial: int
    seed: int
    warm: int
    """Steps of the first part."""
    steps: int
    """In all."""
    weights: str = ""
    """Folder for the weights behind every `monitor_every`-th step; nothing: they are not kept."""


class Answer(msgspec.Struct, kw_only=True):
    """Of one learner: the first part, with its cold connections, and the steps behind it."""

    first: float
    """Seconds."""
    rest: float
    first_bytes: int
    """That its interface has sent."""
    rest_bytes: int


def main() -> None:
    """Answer line by line until there is none."""
    torch.set_num_threads(1)
    keep_memory()  # as gossip.run does; all ways have it
    gc.freeze()  # what was imported stays: the collection behind each answer does not look at it
    dist.init_process_group("gloo")
    # Every process is a host of its own: none reads another's memory.
    comm = Gloo(dist.get_world_size(), place=dist.get_rank())
    gc.freeze()  # what a collection behind each training need not look at: torch itself
    print(READY, flush=True)
    for line in sys.stdin:
        answer = _answer(msgspec.json.decode(line, type=Question), comm)
        print(json.dumps(msgspec.to_builtins(answer)), flush=True)
        gc.collect()
        gc.freeze()  # what is left was imported on the way: no later collection looks at it


def _answer(asked: Question, comm: Communicator) -> Answer:
    size: Size = (SMOKE if asked.smoke else FULL)[asked.task]
    training = made(asked.way, asked.trial, asked.seed, size, comm)
    kept: list[torch.Tensor] | None = [] if asked.weights else None
    dist.barrier()
    sent, start = [bytes_sent()], time.perf_counter()
    for t in range(asked.warm):
        _step(training, t, size, kept)
    sent.append(bytes_sent())
    middle = time.perf_counter()
    for t in range(asked.warm, asked.steps):
        _step(training, t, size, kept)
    training.finish()
    end = time.perf_counter()
    dist.barrier()  # all that was sent has arrived
    sent.append(bytes_sent())
    if kept is not None:
        torch.save(torch.stack(kept), Path(asked.weights) / f"{comm.process}.pt")
    return Answer(
        first=middle - start,
        rest=end - middle,
        first_bytes=sent[1] - sent[0],
        rest_bytes=sent[2] - sent[1],
    )


def _step(training: Training, t: int, size: Size, kept: list[torch.Tensor] | None) -> None:
    training.step(t)
    if kept is not None and (t + 1) % size.task.monitor_every == 0:
        kept.append(training.weights().clone())


def made(way: str, trial: int, seed: int, size: Size, comm: Communicator) -> Training:
    """A way's training from its beginning; collective."""
    method = compared(size)[way]
    build = ours if way in OURS else theirs
    return build(method, method.trials(size.task)[trial], seed, size.task, comm)


def bytes_sent() -> int:
    """What the interfaces of this network namespace have sent, headers included.

    On a host of its own that is this learner's; else it is everybody's, and means nothing.
    """
    lines = INTERFACES.read_text(encoding="ascii").splitlines()[2:]
    return sum(int(line.partition(":")[2].split()[SENT]) for line in lines)


if __name__ == "__main__":
    main()
