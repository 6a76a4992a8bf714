"""A directed graph that keeps no mean: for methods that weigh by the mass that has arrived."""

import numpy as np
from scipy.sparse import csr_array

from topologies.matrices import canonical, entries, identity
from topologies.topology import Topology, TopologyError

STREAM = 102
"""(seed, STREAM) gives the generator."""


def random_directed(n: int, *, out: int = 2, seed: int = 0) -> Topology:
    """A directed ring and random further links: a learner sends to at most `out` others.

    Row j of W is 1/(1 + in-degree) on j and on those who send to it. In-degrees differ, so columns
    do not sum to 1 and plain gossip would not keep the mean; push-sum does.

    Raises:
        TopologyError: out < 1.
    """
    if out < 1:
        raise TopologyError(f"random-directed: out must be at least 1, got {out}")
    if n == 1:
        return Topology("random-directed", 1, 1, lambda t: identity(1))
    random = np.random.default_rng([seed, STREAM])
    sender = np.arange(n)
    links = [(sender, (sender + 1) % n)]
    for _ in range(out - 1):
        links.append((sender, random.integers(0, n, n)))
    receivers = np.concatenate([sender, *(to for _, to in links)])
    senders = np.concatenate([sender, *(by for by, _ in links)])
    pattern = entries(n, receivers, senders, np.ones(len(senders)))
    pattern.data[:] = 1.0
    matrix = canonical(csr_array(pattern / pattern.sum(axis=1)[:, None]))
    return Topology("random-directed", n, 1, lambda t: matrix, preserves_mean="never")
