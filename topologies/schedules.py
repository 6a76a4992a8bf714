"""Deterministic sequences of mixing matrices."""

import math

from scipy.sparse import csr_array

from topologies.matrices import circulant, identity
from topologies.static import exact_average
from topologies.topology import Topology, TopologyError


def one_peer_exponential(n: int) -> Topology:
    """W(t) = (I + P_a) / 2 with a = 2^(t mod tau), tau = ceil(log2 n): i sends to i + a.

    The product of tau steps is J if and only if n is a power of two. A single step contracts
    almost nothing, so only the product over a period says how fast it averages.

    Source: Assran et al., "Stochastic gradient push for distributed deep learning", 2019.
    """
    tau = max(1, math.ceil(math.log2(n)))
    if n == 1:
        return Topology("one-peer-exponential", 1, 1, lambda t: identity(1))
    return Topology("one-peer-exponential", n, tau, lambda t: circulant(n, {0: 0.5, 2**t: 0.5}))


def periodic(n: int, every: int, base: Topology | None) -> Topology:
    """W(t) = J if t + 1 is a multiple of `every`, else the base's W(t), or I without a base.

    Without a base it is local SGD; with one, gossip with periodic global averaging.

    Raises:
        TopologyError: every < 1.

    Source: Stich, "Local SGD converges fast and communicates little", 2019; Chen et al.,
    "Accelerating gossip SGD with periodic global averaging", 2021.
    """
    if every < 1:
        raise TopologyError(f"periodic: every must be at least 1, got {every}")
    exact, alone = exact_average("periodic", n), identity(n)

    def mixing(t: int) -> csr_array:
        if (t + 1) % every == 0:
            return exact
        return alone if base is None else base.matrix(t)

    name = "local" if base is None else base.name
    period = every
    if base is not None:
        period = None if base.period is None else math.lcm(every, base.period)
    return Topology(
        f"periodic({name})",
        n,
        period,
        mixing,
        preserves_mean="always" if base is None else base.preserves_mean,
        graph=None if base is None else base.graph,
    )
