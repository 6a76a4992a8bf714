r"""EquiTopo: matrices made of random cyclic shifts, whose spectral gap does not shrink with n.

Notation: P_a the cyclic shift by a (learner i sends to i + a).

Source: Song et al., "Communication-efficient topologies for decentralized learning with O(1)
consensus rate", 2022.
"""

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from topologies.matrices import circulant, pairs
from topologies.static import static
from topologies.topology import Topology, TopologyError

OFFSETS_STREAM = 102
"""The M basis offsets: (seed, OFFSETS_STREAM)."""
STEP_STREAM = 103
"""Offset and start of one step: (seed, STEP_STREAM, t)."""


def equi_static_directed(
    n: int,
    *,
    num_offsets: int | None = None,
    epsilon: float = 0.5,
    failure: float = 0.1,
    seed: int = 0,
) -> Topology:
    r"""D-EquiStatic: W = (1/M) sum_m [J-like I/n + ((n-1)/n) P_{a_m}], a_m uniform in 1..n-1.

    The M = `num_offsets` offsets are drawn with replacement. None takes
    M = floor(8 ln(2 n / failure) / (3 epsilon^2)), for which ||W - J||_2 < epsilon with
    probability at least 1 - failure.

    Raises:
        TopologyError: num_offsets < 1, or epsilon or failure outside (0, 1).
    """
    return static("equi-static-directed", _average_shift(n, num_offsets, epsilon, failure, seed))


def equi_static(
    n: int,
    *,
    num_offsets: int | None = None,
    epsilon: float = 0.5,
    failure: float = 0.1,
    seed: int = 0,
) -> Topology:
    """U-EquiStatic: (W + W^T) / 2 of the directed one; same arguments, same guarantee."""
    w = _average_shift(n, num_offsets, epsilon, failure, seed)
    return static("equi-static", csr_array((w + w.T) / 2))


def equi_dynamic_directed(
    n: int, *, num_offsets: int | None = None, eta: float = 0.5, seed: int = 0
) -> Topology:
    """OD-EquiDyn: W = (1 - eta) I + eta [I/n + ((n-1)/n) P_p], p drawn anew at each step.

    p is uniform among `num_offsets` basis offsets, or among 1..n-1 if None. The authors' code has
    eta = 1; one half halves the distance of matched pairs instead of nearly swapping them.

    Raises:
        TopologyError: num_offsets < 1, or eta outside (0, 1].
    """
    own = _own_weight(n, eta)
    offsets = _basis(n, num_offsets, seed)

    def mixing(t: int) -> csr_array:
        p, _ = _draw(n, offsets, seed, t)
        return circulant(n, {0: own, p: 1 - own} if n > 1 else {0: 1.0})

    return Topology(
        "equi-dynamic-directed",
        n,
        None if n > 1 else 1,
        mixing,
        expected_contraction=lambda: _contraction(n, own, _frequency(n, offsets)),
    )


def equi_dynamic(
    n: int, *, num_offsets: int | None = None, eta: float = 0.5, seed: int = 0
) -> Topology:
    """OU-EquiDyn: as OD-EquiDyn with disjoint pairs (i, i + p), matched greedily, for P_p.

    The scan i = s, s + 1, ... (mod n) starts at a random s.

    Raises:
        TopologyError: num_offsets < 1, or eta outside (0, 1].
    """
    own = _own_weight(n, eta)
    offsets = _basis(n, num_offsets, seed)

    def mixing(t: int) -> csr_array:
        p, start = _draw(n, offsets, seed, t)
        first = (greedy_pairs(n, p) + start) % n
        return pairs(n, first, (first + p) % n, 1 - own)

    def contraction() -> float:
        # A start s only rotates the pairs, so given p each i is matched with the same probability.
        q = _frequency(n, offsets)
        for p in np.flatnonzero(q):
            q[p] *= 2 * len(greedy_pairs(n, int(p))) / n
        return _contraction(n, own, q)

    return Topology(
        "equi-dynamic", n, None if n > 1 else 1, mixing, expected_contraction=contraction
    )


def greedy_pairs(n: int, p: int) -> NDArray[np.int64]:
    """The i of the pairs (i, i + p mod n) that a scan i = 0..n-1 makes of free learners."""
    if n == 1:
        return np.zeros(0, dtype=np.int64)
    free, first = np.ones(n, dtype=bool), []
    # Within so many consecutive i none is the partner of another: they can be matched at once.
    width = min(p, n - p)
    for start in range(0, n, width):
        i = np.arange(start, min(start + width, n))
        j = (i + p) % n
        matched = free[i] & free[j]
        free[i[matched]] = free[j[matched]] = False
        first.append(i[matched])
    return np.concatenate(first)


def _average_shift(
    n: int, num_offsets: int | None, epsilon: float, failure: float, seed: int
) -> csr_array:
    if not (0 < epsilon < 1 and 0 < failure < 1):
        raise TopologyError(
            f"epsilon and failure must be between 0 and 1, got {epsilon} and {failure}"
        )
    if n == 1:
        return circulant(1, {0: 1.0})
    m = num_offsets
    if m is None:
        m = math.floor(8 * math.log(2 * n / failure) / (3 * epsilon**2))
    times = Counter(_basis(n, m, seed).tolist())
    return circulant(n, {0: 1 / n} | {a: (n - 1) / n * c / m for a, c in times.items()})


def _basis(n: int, num_offsets: int | None, seed: int) -> NDArray[np.int64]:
    """The offsets to draw from: M of 1..n-1 with replacement, or all of them."""
    if num_offsets is not None and num_offsets < 1:
        raise TopologyError(f"num_offsets must be at least 1, got {num_offsets}")
    if num_offsets is None or n == 1:
        return np.arange(1, max(n, 2))
    return np.random.default_rng([seed, OFFSETS_STREAM]).integers(1, n, num_offsets)


def _draw(n: int, offsets: NDArray[np.int64], seed: int, t: int) -> tuple[int, int]:
    """Offset and start of step t."""
    rng = np.random.default_rng([seed, STEP_STREAM, t])
    return int(rng.choice(offsets)), int(rng.integers(n))


def _own_weight(n: int, eta: float) -> float:
    if not 0 < eta <= 1:
        raise TopologyError(f"eta must be in (0, 1], got {eta}")
    return 1 - eta * (n - 1) / n


def _frequency(n: int, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability of each offset 0..n-1, shape [n]."""
    return np.bincount(offsets % n, minlength=n) / len(offsets)


def _contraction(n: int, own: float, q: NDArray[np.float64]) -> float:
    r"""lambda_2(E[W^T W]) when a learner exchanges over offset p with probability q_p.

    With a = own and b = 1 - a, E[W^T W] = I - 2 a b (sum_p q_p (I - (P_p + P_{-p}) / 2)), a
    circulant matrix.
    """
    if n == 1:
        return 0.0
    waves = np.fft.fft(q).real[1:]
    return float((1 - 2 * own * (1 - own) * (q.sum() - waves)).max())
