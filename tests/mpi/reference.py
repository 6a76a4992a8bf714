"""What several processes compare with: computed by process 0, while the others sleep."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from mpi4py import MPI

from gossip.comm.base import Communicator
from gossip.config import Config
from gossip.loop.outcome import TraceRows
from gossip.runs.dispatch import loop
from gossip.study import prepare

T = TypeVar("T")
TAG = 4242
POLL_SECONDS = 0.002


def on_first(function: Callable[[], T]) -> T:
    """The result of `function`, called on process 0 alone, on all of them.

    Where processes share cores, one that computes is slowed down by others that compute the same,
    and by others that wait in MPI.
    """
    world = MPI.COMM_WORLD
    if world.rank == 0:
        value = function()
        for process in range(1, world.size):
            world.send(value, process, TAG)
        return value
    while not world.iprobe(0, TAG):
        time.sleep(POLL_SECONDS)
    return world.recv(source=0, tag=TAG)


@dataclass(frozen=True)
class Walk:
    """What came of a run."""

    x: torch.Tensor
    kept: dict[str, torch.Tensor]
    """What the method keeps beside the weights, name -> [local, ...]."""
    rows: TraceRows
    bytes_sent_per_learner: float
    skips: float


def walk(chosen: Config, comm: Communicator) -> Walk:
    """A run of the first algorithm of `chosen`."""
    study = prepare(chosen, comm)
    rows: TraceRows = []
    outcome = loop(study, chosen.algorithm[0])(record=rows.extend)
    state, sent = outcome.state, outcome.bytes_sent_per_learner
    return Walk(state.x, dict(state.rows), rows, sent, outcome.skips)
