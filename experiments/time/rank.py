"""One learner on one host: steps of our algorithms and of DistributedDataParallel are timed.

Started by experiments.time.netns on every host, with the variables of torchrun. Reads a line of
JSON for each cell and answers with the seconds that a step took it; the lines do not travel over
the network that is measured.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
from torch import nn

from experiments.bench.workload import Bench, Learner, study_of
from experiments.common.learners import READY
from experiments.time.size import BATCH, WIDTHS
from gossip.comm.transports.gloo import Gloo
from gossip.config import Model

WARM = 2
"""Steps before those that are timed: connections come up to their speed."""


def main() -> None:
    """Answer line by line until there is none."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # Every process is a host of its own: none reads another's memory.
    comm = Gloo(n, place=rank)
    steps = _variants(n, comm)
    print(READY, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_seconds(steps[asked["variant"]], asked["steps"])), flush=True)


def _variants(n: int, comm: Gloo) -> dict[str, Callable[[], object]]:
    def bench(algorithm: str, topology: str = "ring") -> Bench:
        model = Model(widths=WIDTHS)
        config = study_of(
            n, BATCH, dataset="few", model=model, algorithm=algorithm, topology=topology
        )
        return Bench(config, comm)

    ring = bench("dpsgd")
    theirs = nn.parallel.DistributedDataParallel(Learner.of(ring).module())
    return {
        "compute": ring.compute,
        "ring": ring.step,
        "one-peer-exponential": bench("dpsgd", "one-peer-exponential").step,
        "ssgd": bench("ssgd").step,
        "ddp": Learner.of(ring).training(theirs),
    }


def _seconds(step: Callable[[], object], steps: int) -> float:
    for _ in range(WARM):
        step()
    dist.barrier()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return median(seconds)  # a neighbour of this machine may have taken a core for one of them


if __name__ == "__main__":
    main()
