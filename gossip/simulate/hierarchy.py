"""Gossip between hosts: the learners of a host average, and one of them talks for all."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gossip.comm.costs import Sent
from gossip.simulate.collectives import CollectiveStage, Cost, all_reduce, staged
from gossip.simulate.edges import Remembered
from gossip.simulate.network import Network
from gossip.simulate.setting import MixingMatrices


@dataclass(frozen=True)
class Hosts:
    """A mixing of m hosts of p learners: W is [m, m], and a host's learners have the same row.

    Within each host a ring all-reduce, then its first learner's message to other hosts, as W says,
    then a broadcast along a binomial tree.
    """

    p: int
    reduce: Cost
    """Within a host."""
    broadcast: Cost
    """Likewise."""
    between: Remembered
    """Messages between the first learners of hosts."""

    def arrive(
        self, ready: NDArray[np.float64], seed: int, t: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Sent]:
        """When each learner has the mixed row; processor seconds of each; what a learner sends.

        Args:
            ready: when each learner's own row leaves, [n].
            seed: of the draws of jitter.
            t: the step.
        """
        edges = self.between.at(t)
        first = ready.reshape(-1, self.p).max(axis=1) + self.reduce.seconds
        mixed = edges.arrive(first, edges.late(seed, t)) + self.broadcast.seconds
        own = self.reduce.handling + self.broadcast.handling
        work = np.full(len(ready), own)
        if edges.handling is not None:
            work[:: self.p] += edges.handling
        leaders = Sent(edges.sent.messages / self.p, edges.sent.bytes / self.p)
        return np.repeat(mixed, self.p), work, self.reduce.sent + leaders + self.broadcast.sent


def hosts(mixing: MixingMatrices, row_bytes: float, network: Network) -> Hosts:
    """The mixing of rows of M bytes.

    Args:
        mixing: t -> W(t) of the hosts.
        row_bytes: M.
        network: with p learners on a host.

    Raises:
        UserError: the network lacks a link.
    """
    p = network.learners_per_host
    nobody = Cost(0.0, Sent(0.0, 0.0))
    return Hosts(
        p,
        all_reduce("ring", p, row_bytes, network),
        staged(_broadcast, p, row_bytes, network) if p > 1 else nobody,
        Remembered(mixing, row_bytes, replace(network, learners_per_host=1)),
    )


def _broadcast(p: int, row_bytes: float, network: Network) -> Iterator[CollectiveStage]:
    """Whole rows from learner 0 along a binomial tree."""
    for bit in reversed(range((p - 1).bit_length())):
        receivers = np.arange(2**bit, p, 2 ** (bit + 1))
        yield CollectiveStage(receivers - 2**bit, receivers, row_bytes, 1, 0)
