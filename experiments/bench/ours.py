"""The sides of the comparison that are ours, and the floor under all of them."""

from dataclasses import replace
from functools import partial

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from experiments.bench.measure import Work
from experiments.bench.variants import (
    TOPOLOGIES,
    Setting,
    Variant,
    sent_by_mean,
    sent_by_mixing,
)
from experiments.bench.workload import Bench
from gossip import Gossip
from gossip.comm.base import Communicator

COMPUTE = "compute only"
MEMCPY = "compute + memcpy"
DPSGD, SSGD, WRAPPER = "gossip DPSGD", "gossip SSGD", "gossip.Gossip"
OURS = (DPSGD, SSGD, WRAPPER)
MPI_MESSAGES, GLOO_MESSAGES = "gossip DPSGD, MPI messages", "gossip DPSGD, Gloo messages"
"""Name of the variant in which the processes are told that none of them share memory."""


def floor(n: int) -> list[Variant]:
    """A learner alone, and with as many rows copied in its own memory as would arrive."""
    sent = {name: sent_by_mixing(name, n) for name in TOPOLOGIES}
    copying = [
        Variant(MEMCPY, name, partial(_copying, rows=round(sent[name])), 3 + 2 * sent[name])
        for name in TOPOLOGIES
    ]
    return [Variant(COMPUTE, "-", compute, 3), *copying]


def offered(n: int) -> list[Variant]:
    """The harness's algorithms, by messages, too, and the wrapper of torch modules."""
    sent = {name: sent_by_mixing(name, n) for name in TOPOLOGIES}
    found = [
        Variant(DPSGD, name, partial(_dpsgd, topology=name), 8 + sent[name], sent[name])
        for name in TOPOLOGIES
    ]
    for name, messages in ((MPI_MESSAGES, _by_mpi), (GLOO_MESSAGES, _by_gloo)):
        found.append(Variant(name, "ring", messages, 8 + sent["ring"], sent["ring"]))
    found.append(Variant(SSGD, "complete", _ssgd, 8, sent_by_mean(n)))
    found += [
        Variant(WRAPPER, name, partial(_wrapped, topology=name), 8 + sent[name], sent[name])
        for name in TOPOLOGIES
    ]
    return found


def compute(setting: Setting) -> Work:
    """A plain torch training loop."""
    return trained(setting, setting.learner.module())


def trained(setting: Setting, module: nn.Module) -> Work:
    """A plain torch training loop on a module that may communicate by itself."""
    step = setting.learner.training(module)
    return Work(step, weights=lambda: parameters_to_vector(module.parameters()).detach())


def _copying(setting: Setting, rows: int) -> Work:
    alone = compute(setting)
    source = setting.learner.start.repeat(rows, 1)
    target = torch.empty_like(source)

    def step() -> None:
        alone.step()
        target.copy_(source)

    return Work(step, weights=alone.weights)


def _dpsgd(setting: Setting, topology: str) -> Work:
    from gossip.comm.transports.mpi import Mpi

    # Not that of all: the rows which variants keep would leave one another no shared memory.
    return _with(setting, Mpi(setting.comm.n), topology)


def _by_mpi(setting: Setting) -> Work:
    from gossip.comm.transports.mpi import Mpi

    return _with(setting, Mpi(setting.comm.n, place=setting.comm.process), "ring")


def _by_gloo(setting: Setting) -> Work:
    from gossip.comm.transports.gloo import Gloo

    return _with(setting, Gloo(setting.comm.n, place=setting.comm.process), "ring")


def _with(setting: Setting, comm: Communicator, topology: str) -> Work:
    return _stepping(replace(setting, comm=comm).bench(topology))


def _ssgd(setting: Setting) -> Work:
    return _stepping(setting.bench("complete", "ssgd"))


def _stepping(bench: Bench) -> Work:
    return Work(bench.step, weights=lambda: bench.state.x[0])


def _wrapped(setting: Setting, topology: str) -> Work:
    return trained(setting, Gossip(setting.learner.module(), topology=topology))
