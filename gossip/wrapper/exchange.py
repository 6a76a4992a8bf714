"""Exchange of a learner with the others: W(t) times the weights, and their mean."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator, Traffic, messages
from gossip.comm.product import ByIdentity
from gossip.wrapper.weights import Weights
from topologies import Topology

Mixing = Callable[[], list[Tensor]]
"""A started exchange: waits for it and gives the mixed rows, [1, d] each, the caller's own from
then on. Called exactly once."""


class Exchange:
    """The weights of one learner and its way to its neighbours.

    Args:
        comm: with one learner in each process.
        weights: of the learner here.
        topology: for as many learners as there are.
        mix_every: H; of H steps the last one mixes, with the topology's next matrix.
    """

    def __init__(
        self, comm: Communicator, weights: Weights, topology: Topology, mix_every: int
    ) -> None:
        self.comm = comm
        self.weights = weights
        self.traffic = Traffic()
        self._topology = topology
        self._every = mix_every
        self._messages = ByIdentity(messages)

    def matrix(self, t: int) -> csr_array | None:
        """W of step t; None where nothing is mixed, as by a learner alone."""
        if self.comm.n == 1 or (t + 1) % self._every:
            return None
        return self._topology.matrix(t // self._every)

    def start(self, t: int) -> Mixing | None:
        """Start X <- W(t) X; None where nothing is mixed. Collective.

        The rows must not be written to until the returned call has come back.
        """
        w = self.matrix(t)
        if w is None:
            return None
        rows = self.weights.rows
        for row in rows:
            self.traffic.count_mix(self._messages(w), row.nbytes)
        under_way = [self.comm.start_mix(row, w) for row in rows]

        def finish() -> list[Tensor]:
            start = time.perf_counter()
            mixed = [pending() for pending in under_way]
            self.traffic.seconds_waiting += time.perf_counter() - start
            return mixed

        return finish

    def mix(self, t: int) -> None:
        """X <- W(t) X, waited for. Collective."""
        mixing = self.start(t)
        if mixing is not None:
            for row, mixed in zip(self.weights.rows, mixing(), strict=True):
                row.copy_(mixed)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """In this block the weights are the mean of all learners', then their own again.

        Collective, and bit for bit, also after an exception. The mean is taken in float64 and
        rounded once.
        """
        rows = self.weights.rows
        own = [row.clone() for row in rows]
        try:
            for row in rows:
                row.copy_(self.comm.mean(row.double()).unsqueeze(0))
            yield
        finally:
            for row, before in zip(rows, own, strict=True):
                row.copy_(before)
