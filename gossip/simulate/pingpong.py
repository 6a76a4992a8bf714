"""Exchanges between processes over the transport that trains, as observations to fit to."""

import time
from functools import partial
from statistics import median

import numpy as np
import torch

from gossip.comm.base import Communicator
from gossip.errors import UserError
from gossip.simulate.fit import Timing
from gossip.simulate.network import Network
from topologies.matrices import pairs

BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Sizes of a row that are exchanged."""
ROUNDS = 9
"""Exchanges of each size that are timed, after one that is not; the median is taken."""


def measure(comm: Communicator) -> list[Timing]:
    """Seconds in which learners j and j + n/2 have each other's rows, for each size of a row.

    Of processes that are placed host by host, the two of a pair are on different hosts. Both rows
    travel at once. Collective; every process gets the slowest one's median.

    Raises:
        UserError: there is only one process.
    """
    if comm.processes < 2:
        raise UserError(
            "no run folder, and only one process, which sends nothing: give run folders, or start "
            "python -m gossip.launch -n 2 --module gossip.simulate --fit FILE.toml"
        )
    half = np.arange(comm.n // 2)
    far = half + comm.n // 2
    w = pairs(comm.n, half, far, 0.5)
    senders, receivers = np.concatenate([half, far]), np.concatenate([far, half])

    def exchanged(size: int) -> float:
        seconds = []
        rows = torch.ones(len(comm.hosted), size // 4)
        for _ in range(ROUNDS + 1):
            comm.share(None)  # all begin at once
            start = time.perf_counter()
            comm.start_mix(rows, w)()
            seconds.append(time.perf_counter() - start)
        return max(comm.share(median(seconds[1:])))

    def predicted(size: int, network: Network) -> float:
        return float(network.seconds(senders, receivers, size).max())

    return [
        Timing(f"rows of {size:,} bytes", exchanged(size), partial(predicted, size))
        for size in BYTES
    ]
