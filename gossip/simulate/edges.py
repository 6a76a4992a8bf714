"""The messages of one mixing, and when they arrive."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gossip.comm.base import messages
from gossip.comm.costs import Sent, mix
from gossip.simulate.network import Network
from gossip.streams import JITTER, generator

MOST_KEPT = 64
"""Matrices whose edges are remembered: longer periods are made anew."""


@dataclass(frozen=True)
class Edges:
    """Messages of one multiplication by W, in the order of their receivers."""

    senders: NDArray[np.integer]
    """[edges]."""
    receivers: NDArray[np.integer]
    """Those who get any, in order, without repetition."""
    starts: NDArray[np.integer]
    """Where the messages of each of `receivers` begin."""
    seconds: NDArray[np.float64]
    """tau of each message, [edges]."""
    jitter: NDArray[np.float64] | None
    """Mean delay of each beside that, [edges]."""
    adding: NDArray[np.float64]
    """Seconds to add what has arrived, [n]."""
    handling: NDArray[np.float64] | None
    """Seconds in which messages keep each learner's processor busy, [n]; None: none."""
    sent: Sent

    def arrive(self, ready: NDArray[np.float64], late: NDArray[np.float64]) -> NDArray[np.float64]:
        """When each learner has its neighbours' rows and its own added, [n].

        Args:
            ready: when each learner's own row leaves, [n].
            late: delays of the messages, [edges] or a number.
        """
        end = ready.copy()
        if len(self.senders):
            arrival = ready[self.senders] + self.seconds + late
            last = np.maximum.reduceat(arrival, self.starts)
            end[self.receivers] = np.maximum(end[self.receivers], last)
        if self.handling is not None:
            end = np.maximum(end, ready + self.handling)
        return end + self.adding

    def late(self, seed: int, t: int) -> NDArray[np.float64]:
        """Delays drawn at (seed, JITTER, t), [edges]; zero where links have no jitter."""
        if self.jitter is None:
            return np.zeros(1)
        return self.jitter * generator(seed, JITTER, t).exponential(1.0, len(self.senders))


def edges(w: csr_array, row_bytes: float, network: Network) -> Edges:
    """The messages of a multiplication by W of rows of M bytes: one for each off-diagonal entry."""
    n = w.shape[0]
    received = np.diff(w.indptr)
    receivers = np.repeat(np.arange(n), received)
    off = w.indices != receivers
    senders, receivers = w.indices[off].astype(np.intp), receivers[off]
    into = np.bincount(receivers, minlength=n)
    who = np.flatnonzero(into)
    starts = np.concatenate([[0], np.cumsum(into[who])[:-1]]).astype(np.intp)
    return Edges(
        senders,
        who,
        starts,
        network.seconds(senders, receivers, row_bytes) if len(senders) else np.zeros(0),
        network.jitter(senders, receivers) if network.has_jitter else None,
        into.astype(np.float64) * (row_bytes * network.reduce),
        network.handling(n, senders, receivers, row_bytes) if network.has_handling else None,
        mix(messages(w), row_bytes),
    )


class Remembered:
    """The edges of W(t); those of matrices that come back are kept.

    Args:
        mixing: t -> W(t), the same object when it is the same matrix.
        row_bytes: M.
        network: that carries them.
    """

    def __init__(
        self, mixing: Callable[[int], csr_array], row_bytes: float, network: Network
    ) -> None:
        self._mixing, self._row_bytes, self._network = mixing, row_bytes, network
        self._kept: dict[int, tuple[csr_array, Edges]] = {}

    def at(self, t: int) -> Edges:
        """The messages of step t."""
        w = self._mixing(t)
        known = self._kept.get(id(w))
        if known is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            # The matrix is kept too, so that no other can have its id.
            known = self._kept[id(w)] = w, edges(w, self._row_bytes, self._network)
        return known[1]
