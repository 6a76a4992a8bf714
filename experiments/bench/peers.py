"""Other libraries' ways to train on several processes, all over torch.distributed's Gloo."""

import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.utils import parameters_to_vector

from experiments.bench.measure import Work
from experiments.bench.ours import trained
from experiments.bench.variants import Setting, Variant, sent_by_mean
from gossip.comm.base import Communicator
from gossip.comm.startup import rendezvous

DDP, AVERAGER, DECENT = "DistributedDataParallel", "PeriodicModelAverager(1)", "decent-dp"
LOOPBACK = Path("/sys/class/net/lo")

_starts = count()
PEERS = (DDP, AVERAGER, DECENT)


def offered(n: int) -> list[Variant]:
    """The peers that are installed and can train on n processes."""
    found = [
        Variant(DDP, "complete", _ddp, 5, sent_by_mean(n)),
        Variant(AVERAGER, "complete", _averager, 5, sent_by_mean(n)),
    ]
    if find_spec("decent_dp") is None:
        return found
    pairs = [("ring", "ring")] * (n % 2 == 0)
    pairs += [("one-peer-exponential", "one-peer-exp")] * (n.bit_count() == 1)
    found += [
        Variant(DECENT, ours, partial(_decent, topology=theirs), 5, 1) for ours, theirs in pairs
    ]
    everyone = partial(_decent, topology="complete")
    return [*found, Variant(DECENT, "complete", everyone, 5, sent_by_mean(n))]


@contextmanager
def gloo(comm: Communicator) -> Generator[None]:
    """torch.distributed between the processes of `comm`, over loopback; collective."""
    import torch.distributed as dist

    if LOOPBACK.exists():  # else Gloo looks up the host's name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK.name)
    store = dist.PrefixStore(f"bench {next(_starts)}", rendezvous.store())
    dist.init_process_group("gloo", store=store, rank=comm.process, world_size=comm.processes)
    try:
        yield
        comm.share(None)  # nobody leaves while others are still at it
    finally:
        dist.destroy_process_group()


def _ddp(setting: Setting) -> Work:
    """SSGD: gradients averaged in buckets while backward goes on."""
    return trained(setting, nn.parallel.DistributedDataParallel(setting.learner.module()))


def _averager(setting: Setting) -> Work:
    """Local steps, and the mean of all models after each: adapt, then combine with 11^T/n."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    learner = setting.learner
    module = learner.module()
    train = learner.training(module)
    with warnings.catch_warnings():  # that this costs as much as averaging gradients
        warnings.simplefilter("ignore", UserWarning)
        averager: Any = PeriodicModelAverager(period=1)

    def step() -> None:
        train()
        averager.average_parameters(module.parameters())

    return Work(step, weights=lambda: parameters_to_vector(module.parameters()).detach())


def _decent(setting: Setting, topology: str) -> Work:
    """DPSGD that starts a step's messages at the end of the step before.

    Its first step takes a gradient and updates nothing; the second makes both updates. Its edges
    are pairs that take turns, also on the ring: one neighbour per step, not two.
    """
    from loguru import logger

    logger.disable("decent_dp")
    from decent_dp.ddp import DecentralizedDataParallel

    learner = setting.learner
    inner = learner.module()

    def make(named: list[tuple[str, Any]]) -> Any:
        return learner.optimizer([parameter for _, parameter in named])

    module = DecentralizedDataParallel(
        inner, make, topology=topology, _local_world_size=setting.comm.processes
    )

    def finish() -> None:
        """Wait for the messages that it has under way: their cost belongs to this block."""
        for work in module._comm_ops:
            if work is not None:
                work.wait()

    return Work(
        lambda: learner.backward(module),
        finish,
        weights=lambda: parameters_to_vector(inner.parameters()).detach(),
    )
