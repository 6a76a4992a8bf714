r"""MATCHA: the matchings of a graph, each at random, the important ones more often.

The edges are coloured, so that each colour is a matching with Laplacian L_i, and matching i is
active with probability p_i: W(t) = I - a sum_active L_i. With \bar L = sum p_i L_i and
\tilde L = sum p_i (1 - p_i) L_i,

.. math::
    E[W^\top W] = (I - a \bar L)^2 + 2 a^2 \tilde L

since L_i^2 = 2 L_i. The p maximise lambda_2(\bar L) within the budget, a minimises the contraction.

Source: Wang, Sahu, Yang, Joshi, Kar, "MATCHA: speeding up decentralized SGD via matching
decomposition sampling", 2019, sections 3 and 4.
"""

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from topologies.colouring import matchings
from topologies.matrices import identity
from topologies.topology import Topology, TopologyError

STREAM = 101
"""(seed, STREAM, t) gives the generator of step t."""
ASCENT_STEPS = 300
MOST = 1024
"""Learners up to which dense eigenvalues are found in seconds."""


def matcha(n: int, graph: nx.Graph, *, budget: float = 0.5, seed: int = 0) -> Topology:
    """W(t) = I - a sum of the active matchings' Laplacians; at most `budget` of them on average.

    Args:
        n: learners.
        graph: connected, nodes 0..n-1.
        budget: C_b in (0, 1], the share of the matchings that is active on average. That of the
            graph's messages is another where matchings have different numbers of edges.
        seed: of what is active.

    Raises:
        TopologyError: the budget is no share, or n is too large.
    """
    if not 0 < budget <= 1:
        raise TopologyError(f"matcha: budget must be a share in (0, 1], got {budget}")
    if n > MOST:
        raise TopologyError(f"matcha: n={n} is too large for its eigenvalues: use at most {MOST}")
    if n == 1:
        return Topology("matcha", 1, 1, lambda t: identity(1))
    laplacians = np.stack([laplacian(n, edges) for edges in matchings(graph)])
    active = activation(laplacians, budget)
    a, contraction = step_size(laplacians, active)
    sparse = [csr_array(a * part) for part in laplacians]
    whole = identity(n)

    def mixing(t: int) -> csr_array:
        drawn = np.random.default_rng([seed, STREAM, t]).random(len(active)) < active
        chosen = [part for part, is_on in zip(sparse, drawn, strict=True) if is_on]
        return csr_array(whole - sum(chosen)) if chosen else whole

    return Topology("matcha", n, None, mixing, expected_contraction=lambda: contraction)


def laplacian(n: int, edges: list[tuple[int, int]]) -> NDArray[np.float64]:
    """L of a set of edges, [n, n]."""
    matrix = np.zeros((n, n))
    for i, j in edges:
        matrix[i, i] += 1
        matrix[j, j] += 1
        matrix[i, j] = matrix[j, i] = -1
    return matrix


def activation(laplacians: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """The p [c] that maximise lambda_2(sum p_i L_i), sum p_i <= c budget, by projected ascent."""
    c = len(laplacians)
    p = np.full(c, budget)
    best, value = p, -np.inf
    for k in range(1, ASCENT_STEPS + 1):
        values, vectors = np.linalg.eigh(np.einsum("i,ijk->jk", p, laplacians))
        if values[1] > value + 1e-12:
            best, value = p, values[1]
        fiedler = vectors[:, 1]
        slope = np.einsum("j,ijk,k->i", fiedler, laplacians, fiedler)
        norm = np.linalg.norm(slope)
        p = projected(p + 0.1 / np.sqrt(k) * slope / (norm or 1.0), c * budget)
    return best


def projected(p: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest point of {0 <= p_i <= 1, sum p_i <= total}."""
    inside = np.clip(p, 0, 1)
    if inside.sum() <= total:
        return inside
    low, high = p.min() - 1, p.max()
    for _ in range(60):
        middle = (low + high) / 2
        if np.clip(p - middle, 0, 1).sum() > total:
            low = middle
        else:
            high = middle
    return np.clip(p - high, 0, 1)


def step_size(laplacians: NDArray[np.float64], p: NDArray[np.float64]) -> tuple[float, float]:
    """The a that contracts most without a negative weight, and lambda_2(E[W^T (I - J) W])."""
    from scipy.optimize import minimize_scalar  # a third of a second, for this topology alone

    mean = np.einsum("i,ijk->jk", p, laplacians)
    noise = np.einsum("i,ijk->jk", p * (1 - p), laplacians)
    n = len(mean)
    away = np.eye(n) - 1 / n

    def contraction(a: float) -> float:
        second = away - 2 * a * mean + a * a * (mean @ mean + 2 * noise)
        return float(np.linalg.eigvalsh(second)[-1])

    degree = float(laplacians.sum(axis=0).diagonal().max())
    above = min(2 / float(np.linalg.eigvalsh(mean)[-1]), 1 / degree)
    found = minimize_scalar(contraction, bounds=(0, above), method="bounded")
    return float(found.x), contraction(float(found.x))
