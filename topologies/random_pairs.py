r"""A learner randomly picks a neighbour with which to exchange weights, in four readings.

The contraction is lambda_2(E[W^T (I - J) W]): E||deviation(t+1)||^2 is at most so many times
||deviation(t)||^2. Where W is a uniformly relabelled matrix it is (||W||_F^2 - 1) / (n - 1).

Source: Zhang et al., "Loss landscape dependent self-adjusting learning rates in decentralized
stochastic gradient descent", 2021, section 4, which leaves open whether a pick is reciprocal.
"""

import numpy as np
from scipy.sparse import csr_array

from topologies.matrices import circulant, entries, identity, pairs
from topologies.topology import Topology

STREAM = 100
"""(seed, STREAM, t) gives the generator of step t."""


def matching(n: int, *, seed: int = 0) -> Topology:
    """A uniform random perfect matching, pairs 1/2, 1/2; if n is odd one learner idles.

    Contraction (n - 2) / (2 (n - 1)) for even n, 1/2 for odd n.
    """

    def mixing(t: int) -> csr_array:
        order = _generator(seed, t).permutation(n)
        return pairs(n, order[0 : n - 1 : 2], order[1:n:2], 0.5)

    contraction = 0.5 if n % 2 else (n - 2) / (2 * (n - 1))
    return _random("matching", n, mixing, contraction)


def cycle(n: int, *, seed: int = 0) -> Topology:
    """W = (I + P) / 2, P a random cyclic permutation: send to one, receive from another.

    Contraction (n - 2) / (2 (n - 1)).
    """

    def mixing(t: int) -> csr_array:
        order = _generator(seed, t).permutation(n)
        rows = np.concatenate([order, order])
        columns = np.concatenate([order, np.roll(order, 1)])
        return entries(n, rows, columns, np.full(2 * n, 0.5))

    return _random("cycle", n, mixing, (n - 2) / (2 * max(n - 1, 1)))


def ring_shuffle(n: int, *, seed: int = 0) -> Topology:
    """The ring (1/3, 1/3, 1/3) with the learners in a new random order at each step.

    Contraction (1/3) (1 - 2 / (n - 1)) for n >= 3; 0 for n = 2.
    """
    ring = (
        circulant(n, {0: 1 / 3, 1: 1 / 3, n - 1: 1 / 3})
        if n >= 3
        else circulant(2, {0: 0.5, 1: 0.5})
    )

    def mixing(t: int) -> csr_array:
        order = _generator(seed, t).permutation(n)
        coo = ring.tocoo()
        return entries(n, order[coo.row], order[coo.col], coo.data)

    contraction = (1 - 2 / (n - 1)) / 3 if n >= 3 else 0.0
    return _random("ring-shuffle", n, mixing, contraction)


def pull(n: int, *, seed: int = 0) -> Topology:
    """Each learner averages 1/2, 1/2 with an independently drawn peer's published weights.

    Only rows sum to 1: the mean is kept in expectation, and drifts. Contraction
    1/2 - 1/(2 (n-1)) - (1/(4n)) (1 - 1/(n-1)^2).

    Source: Mai et al., "KungFu: making training in distributed machine learning adaptive", 2020.
    """

    def mixing(t: int) -> csr_array:
        j = np.arange(n)
        peer = (j + _generator(seed, t).integers(1, n, n)) % n
        return entries(n, np.concatenate([j, j]), np.concatenate([j, peer]), np.full(2 * n, 0.5))

    m = max(n - 1, 1)
    contraction = 0.5 - 1 / (2 * m) - (1 - 1 / m**2) / (4 * n)
    return _random("pull", n, mixing, contraction, preserves_mean="expectation")


def _random(name: str, n: int, mixing, contraction: float, **fields) -> Topology:
    """The random topology of `mixing`; nothing is random about one learner."""
    if n == 1:
        return Topology(name, 1, 1, lambda t: identity(1))
    return Topology(name, n, None, mixing, expected_contraction=lambda: contraction, **fields)


def _generator(seed: int, t: int) -> np.random.Generator:
    return np.random.default_rng([seed, STREAM, t])
