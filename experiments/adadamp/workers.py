"""Fig. 7: seconds of an epoch by samples per worker, with a Dask cluster of real processes.

As in the paper a gradient sleeps, here in the workers' own processes: half of the simulation's
78 ms for 128 samples. So workers need no core for it, and what an update takes beyond is Dask's.
"""

import math
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.adadamp.facts import N
from experiments.adadamp.size import Size
from experiments.common import tables
from gossip.engines import ArraySamples, MicroBatch, Problem, parts
from gossip.engines.extras import extra
from gossip.simulate.slots import GRADIENT, PER_TASK

TABLE = "adadamp_workers.csv"
BATCH = 512
PUBLISHED = {32: 11.08, 64: 7.67, 128: 7.30, 256: 10.10, 512: 17.06}
"""Median seconds of an epoch by samples per worker."""
PER_SAMPLE = GRADIENT / 2 / PER_TASK
"""Seconds that a gradient sleeps for each sample."""


class Sleeping(nn.Module):
    """A weight times its inputs, after as long as their gradient takes in the paper."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """[n, 1] -> [n, 1]."""
        time.sleep(PER_SAMPLE * len(x))
        return x * self.weight


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Updates of `BATCH` samples by workers with so many samples each."""

    samples: int
    workers: int
    updates: int
    update_ms: float
    """Median, and quartiles."""
    update_ms_q1: float
    update_ms_q3: float
    load: float
    """Load average when it began."""

    @property
    def epoch_s(self) -> float:
        """Seconds of an epoch, as the paper counts."""
        return 1e-3 * self.update_ms * math.ceil(N / BATCH)

    @property
    def overhead_ms(self) -> float:
        """What an update takes beside the gradients, which all sleep at once."""
        return self.update_ms - 1e3 * PER_SAMPLE * self.samples


def measure(size: Size) -> list[Wait]:
    """Updates of all kinds in turn, A B C A B C ..., on one cluster.

    Raises:
        UserError: Dask is not installed.
    """
    from gossip.engines.cluster import Cluster

    distributed: Any = extra("distributed", "dask")
    data = ArraySamples(np.ones((BATCH, 1), np.float32), np.zeros((BATCH, 1), np.float32))
    problem = Problem(Sleeping(), nn.MSELoss(), data)
    weights = {name: p.detach() for name, p in problem.module.named_parameters()}
    batches = {
        samples: [MicroBatch(part) for part in parts(np.arange(BATCH), samples)]
        for samples in size.samples_per_worker
    }
    most, load = max(map(len, batches.values())), os.getloadavg()[0]
    found: dict[int, list[float]] = {samples: [] for samples in batches}
    with ExitStack() as stack:
        cluster = stack.enter_context(
            distributed.LocalCluster(
                n_workers=most,
                threads_per_worker=1,
                processes=size.dask_processes,
                dashboard_address=":0",
            )
        )
        # Connected to its address a client starts and retires nothing: P is who takes part.
        client = stack.enter_context(
            distributed.Client(cluster.scheduler_address, set_as_default=False)
        )
        client.wait_for_workers(most)
        engine = Cluster(client)
        engine.hold(problem)
        for turn in range(size.dask_updates + 1):
            for samples, batch in batches.items():
                engine.scale(len(batch))
                start = time.perf_counter()
                engine.gradient(weights, batch)
                if turn:  # in the first a worker imports what it needs
                    found[samples].append(1e3 * (time.perf_counter() - start))
        engine.close()
    return [
        Wait(
            samples=samples,
            workers=len(batches[samples]),
            updates=len(ms),
            update_ms=float(np.median(ms)),
            update_ms_q1=float(np.quantile(ms, 0.25)),
            update_ms_q3=float(np.quantile(ms, 0.75)),
            load=load,
        )
        for samples, ms in found.items()
    ]


def write(size: Size, folder: Path) -> None:
    """Measure anew."""
    rows = [
        {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(row).items()}
        for row in measure(size)
    ]
    tables.write(rows, folder / TABLE)


def read(folder: Path) -> Sequence[Wait]:
    """What `write` wrote; no rows where there is no file."""
    return tables.typed(folder / TABLE, Wait)
