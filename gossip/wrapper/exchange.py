"""Exchange of a learner with the others: W(t) times the weights, and their mean."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator, Traffic, messages
from gossip.comm.by_identity import ByIdentity
from gossip.compress import Identity, Operator
from gossip.wrapper.weights import Weights
from topologies import Topology


class Mixing(NamedTuple):
    """A started exchange."""

    sent: list[Tensor]
    """The rows of weights that the others get, [1, d] each; not to be written to."""
    finish: Callable[[], list[Tensor]]
    """Waits for it and gives the mixed rows, the caller's own from then on. Called exactly once."""


class Exchange:
    """The weights of one learner and its way to its neighbours.

    Args:
        comm: with one learner in each process.
        weights: of the learner here.
        topology: for as many learners as there are.
        mix_every: H; of H steps the last one mixes, with the topology's next matrix.
        packing: as what `comm` sends the weights; None: as they are.
    """

    def __init__(
        self,
        comm: Communicator,
        weights: Weights,
        topology: Topology,
        mix_every: int,
        packing: Operator | None = None,
    ) -> None:
        self.comm = comm
        self.weights = weights
        self.traffic = Traffic()
        self.topology = topology
        self.mix_every = mix_every
        self._messages = ByIdentity(messages)
        self._packing = packing or Identity()

    @property
    def depends_on_step(self) -> bool:
        """Whether what is mixed is not the same at every step."""
        return self.comm.n > 1 and (self.mix_every, self.topology.period) != (1, 1)

    def mixing_matrix(self, t: int) -> csr_array | None:
        """W of step t; None where nothing is mixed, as by a learner alone."""
        if self.comm.n == 1 or (t + 1) % self.mix_every:
            return None
        return self.topology.matrix(t // self.mix_every)

    def start(self, t: int) -> Mixing | None:
        """Start W(t) X for the weights as they are now; None where nothing is mixed. Collective.

        What becomes of the weights meanwhile is the caller's business: what is sent is a copy,
        where processes share memory the one that the others read.
        """
        w = self.mixing_matrix(t)
        if w is None:
            return None
        rows = self.weights.rows(self.comm.new_rows)
        for row in rows:
            size = self._packing.size(row.shape[1], row.element_size())
            self.traffic.count_mix(self._messages(w), size)
        under_way = [self.comm.start_mix(row, w) for row in rows]

        def finish() -> list[Tensor]:
            start = time.perf_counter()
            mixed = [pending() for pending in under_way]
            self.traffic.seconds_waiting += time.perf_counter() - start
            return mixed

        return Mixing(rows, finish)

    def mix(self, t: int) -> None:
        """X <- W(t) X, waited for. Collective."""
        mixing = self.start(t)
        if mixing is not None:
            self.weights.put(mixing.finish())

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """In this block the weights are the mean of all learners', then their own again.

        Collective, and bit for bit, also after an exception. The mean is taken in float64 and
        rounded once.
        """
        own = self.weights.rows()
        try:
            self.weights.lend([self.comm.mean(row.double()).unsqueeze(0) for row in own])
            yield
        finally:
            self.weights.lend(own)
