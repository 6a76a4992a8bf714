"""Matrices that methods make from W: each is made once, for a message plan is kept by identity."""

from collections.abc import Callable

import networkx as nx
import numpy as np
from scipy.sparse import csr_array

from gossip.comm.by_identity import ByIdentity
from topologies.colouring import matchings
from topologies.damped import blend
from topologies.matrices import pairs
from topologies.spectrum import least_eigenvalue

MARGIN = 0.95
"""Share of the largest weight that a condition on the least eigenvalue allows."""


def above(least: float) -> Callable[[csr_array], csr_array]:
    """W, or as much of it beside I as keeps the least eigenvalue above `least`, with a margin."""

    def make(w: csr_array) -> csr_array:
        weight = MARGIN * (1 - least) / max(1e-12, 1 - least_eigenvalue(w))
        return w if weight >= 1 else blend(w, weight)

    return ByIdentity(make)


def _mass_keeping(w: csr_array) -> csr_array:
    columns = w.sum(axis=0)
    if np.abs(columns - 1).max() <= 1e-12 * len(columns):
        return w
    scaled = w.copy()
    scaled.data = scaled.data / columns[scaled.indices]
    return scaled


mass_keeping: Callable[[csr_array], csr_array] = ByIdentity(_mass_keeping)
"""P: W with its columns scaled to sum 1, so that sender k splits all of its mass."""


def graph_of(w: csr_array) -> nx.Graph:
    """Who exchanges rows with whom, nodes 0..n-1."""
    graph = nx.from_scipy_sparse_array(w)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def _swaps(w: csr_array) -> tuple[csr_array, ...]:
    n = w.shape[0]
    colours = matchings(graph_of(w))
    return tuple(pairs(n, *zip(*colour, strict=True), weight=1.0) for colour in colours)


swaps: Callable[[csr_array], tuple[csr_array, ...]] = ByIdentity(_swaps)
"""Permutations that together send a row along each edge of W in both directions: in each, pairs
of neighbours swap their rows, and who is in no pair keeps its own."""
