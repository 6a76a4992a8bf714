r"""Rules that turn an undirected graph into a mixing matrix W.

Notation: d_i the degree of learner i without itself, L the Laplacian of the graph. Every W is
symmetric with rows that sum to 1, hence doubly stochastic, and has the graph's sparsity pattern.
"""

from collections.abc import Callable

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from topologies.fdla import fastest_linear_averaging
from topologies.matrices import from_edges
from topologies.spectrum import laplacian_extremes
from topologies.topology import TopologyError


def metropolis_hastings(graph: nx.Graph) -> csr_array:
    r"""W_ij = 1 / (1 + max(d_i, d_j)) on edges, W_ii = 1 - sum_j W_ij > 0.

    Needs only the degrees of a learner's own neighbours.

    References:
        Xiao, Boyd, Lall, "A scheme for robust distributed sensor fusion based on average
        consensus", IPSN 2005.
    """
    i, j = edge_arrays(graph)
    degree = degrees(graph)
    return from_edges(len(graph), i, j, 1 / (1 + np.maximum(degree[i], degree[j])))


def uniform(graph: nx.Graph) -> csr_array:
    """W_ij = 1 / (d + 1) on edges and on itself; the graph must be regular.

    Raises:
        TopologyError: two learners have different degrees.
    """
    degree = degrees(graph)
    if degree.min() != degree.max():
        raise TopologyError(
            f"weights 'uniform' need a graph where all degrees are equal, but they go from "
            f"{degree.min()} to {degree.max()}: use 'metropolis-hastings'"
        )
    return max_degree(graph)


def max_degree(graph: nx.Graph) -> csr_array:
    """W = I - L / (d_max + 1).

    References:
        Xiao, Boyd, "Fast linear iterations for distributed averaging", 2004, section 4.1.
    """
    return constant(graph, 1 / (degrees(graph).max() + 1))


def best_constant(graph: nx.Graph) -> csr_array:
    r"""W = I - a L with a = 2 / (lambda_max(L) + lambda_{n-1}(L)), the best single edge weight.

    The rate is (lambda_max - lambda_{n-1}) / (lambda_max + lambda_{n-1}), lambda_{n-1} being the
    smallest non-zero eigenvalue of L. W_ii may be negative.

    References:
        Xiao, Boyd, "Fast linear iterations for distributed averaging", 2004, section 4.1.
    """
    if len(graph) == 1:
        return constant(graph, 0.0)
    smallest, largest = laplacian_extremes(graph)
    return constant(graph, 2 / (smallest + largest))


def lazy(graph: nx.Graph) -> csr_array:
    """(I + W) / 2 of the Metropolis-Hastings W: every eigenvalue is >= 0."""
    i, j = edge_arrays(graph)
    degree = degrees(graph)
    return from_edges(len(graph), i, j, 0.5 / (1 + np.maximum(degree[i], degree[j])))


def constant(graph: nx.Graph, a: float) -> csr_array:
    """W = I - a L: the weight a on every edge."""
    i, j = edge_arrays(graph)
    return from_edges(len(graph), i, j, np.full(len(i), a))


def fdla(graph: nx.Graph) -> csr_array:
    """The symmetric W with the least ||W - J||_2: see `topologies.fdla`."""
    if len(graph) == 1:
        return constant(graph, 0.0)
    i, j = edge_arrays(graph)
    smallest, largest = laplacian_extremes(graph)
    start = np.full(len(i), 2 / (smallest + largest))
    return from_edges(len(graph), i, j, fastest_linear_averaging(len(graph), i, j, start))


def edge_arrays(graph: nx.Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both ends of each edge, two arrays [edges], without self-loops."""
    ends = np.array([e for e in graph.edges() if e[0] != e[1]], dtype=np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def degrees(graph: nx.Graph) -> NDArray[np.int64]:
    """Number of neighbours of each learner, shape [n]."""
    i, j = edge_arrays(graph)
    return np.bincount(np.concatenate([i, j]), minlength=len(graph))


WEIGHTS: dict[str, Callable[[nx.Graph], csr_array]] = {
    "metropolis-hastings": metropolis_hastings,
    "uniform": uniform,
    "max-degree": max_degree,
    "best-constant": best_constant,
    "lazy": lazy,
    "fdla": fdla,
}
"""What `weights=` offers. A new rule is a function above and its name here."""


def mixing_matrix(graph: nx.Graph, weights: str) -> csr_array:
    """W of a graph with nodes 0..n-1 by the rule called `weights`.

    Raises:
        TopologyError: there is no such rule, or it does not fit the graph.
    """
    if weights not in WEIGHTS:
        raise TopologyError(f"unknown weights {weights!r}: use one of {', '.join(WEIGHTS)}")
    return WEIGHTS[weights](graph)
