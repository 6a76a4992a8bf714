"""DPSGD written by hand with mpi4py: a flat buffer to the neighbours and an average."""

from functools import partial

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from experiments.bench.measure import Work
from experiments.bench.variants import (
    TOPOLOGIES,
    Setting,
    Variant,
    sent_by_mean,
    sent_by_mixing,
)
from gossip.comm.startup.environment import start_mpi
from topologies import Topology

RAW = "raw MPI"


def offered(n: int) -> list[Variant]:
    """Messages to each neighbour; on the complete graph Allreduce, as anybody would."""
    sent = {name: sent_by_mixing(name, n) for name in TOPOLOGIES}
    neighbours = [
        Variant(RAW, name, partial(_neighbours, topology=name), 4 + sent[name], sent[name])
        for name in TOPOLOGIES
        if name != "complete"
    ]
    return [*neighbours, Variant(RAW, "complete", _allreduce, 5, sent_by_mean(n))]


class Messages:
    """x_j <- sum_k W_jk x_k, one learner per process, in place in `x` [d]."""

    def __init__(self, topology: Topology, x: Tensor) -> None:
        self._world = start_mpi().COMM_WORLD
        self.x = x
        """Rows before, and after `finish`, the average; [d]."""
        self._topology, self._t = topology, 0
        self._arrivals = torch.empty(0, len(x), dtype=x.dtype)

    def start(self) -> None:
        """Send x and receive the neighbours' rows; x must not be written to."""
        me = self._world.rank
        senders = self._topology.neighbours_in(me, self._t)
        if len(self._arrivals) < len(senders):
            self._arrivals = self.x.new_empty(len(senders), len(self.x))
        self._requests = [
            self._world.Irecv(row.numpy(), int(k))
            for k, row in zip(senders, self._arrivals, strict=False)
        ] + [
            self._world.Isend(self.x.numpy(), int(k))
            for k in self._topology.neighbours_out(me, self._t)
        ]

    def finish(self) -> None:
        """Wait and average."""
        start_mpi().Request.Waitall(self._requests)
        me = self._world.rank
        w: csr_array = self._topology.matrix(self._t)
        weights = np.asarray(w[[me]].todense())[0]
        self.x *= weights[me]
        senders = self._topology.neighbours_in(me, self._t)
        for k, row in zip(senders, self._arrivals, strict=False):
            self.x.add_(row, alpha=weights[k])
        self._t += 1

    def exchange(self) -> None:
        """Send, receive and average."""
        self.start()
        self.finish()


def _neighbours(setting: Setting, topology: str) -> Work:
    """DPSGD: the messages travel while the gradient is computed."""
    learner = setting.learner
    module, flat = learner.flat_module()
    sgd = learner.optimizer(module.parameters())
    messages = Messages(setting.topology(topology), flat)

    def step() -> None:
        messages.start()
        sgd.zero_grad()
        learner.backward(module)
        messages.finish()
        sgd.step()

    return Work(step, weights=lambda: flat)


def _allreduce(setting: Setting) -> Work:
    """DPSGD with W = 11^T/n."""
    learner = setting.learner
    world = start_mpi().COMM_WORLD
    module, flat = learner.flat_module()
    sgd = learner.optimizer(module.parameters())
    mean = torch.empty_like(flat)

    def step() -> None:
        world.Allreduce(flat.numpy(), mean.numpy())
        sgd.zero_grad()
        learner.backward(module)
        torch.mul(mean, 1 / world.size, out=flat)
        sgd.step()

    return Work(step, weights=lambda: flat)
