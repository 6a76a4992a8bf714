"""Clocks are read when the GPU has nothing left to do."""

from collections.abc import Callable
from functools import partial

import torch

from experiments.bench.measure import Meeting, Work
from experiments.gpu_check.job import say
from gossip.comm.base import Communicator


def settle(device: torch.device) -> None:
    """Wait for all that has been queued on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(step: Callable[[], object], device: torch.device) -> Work:
    """Steps that are queued one after the other, and waited for at the end of a block."""
    return Work(step, partial(settle, device))


def meeting_on(comm: Communicator, device: torch.device) -> Meeting:
    """Processes that meet with idle GPUs, as their warm-up leaves work behind, too."""

    def wait() -> None:
        settle(device)
        comm.share(None)

    return Meeting(comm, wait, say=partial(say, comm))
