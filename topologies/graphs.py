"""Undirected graphs with nodes 0..n-1, by networkx where it has a generator."""

import math

import networkx as nx
import numpy as np

from topologies.topology import TopologyError

GRAPH_STREAM = 101
"""Random graphs: (seed, GRAPH_STREAM)."""
MOST_TRIES = 100
"""Draws of a random graph before giving up on a connected one."""


def ring(n: int) -> nx.Graph:
    """Each learner has a left and a right neighbour."""
    return nx.cycle_graph(n) if n >= 3 else nx.path_graph(n)


def grid(n: int, rows: int | None, columns: int | None, periodic: bool) -> nx.Graph:
    """Grid of rows x columns, learner r * columns + c at (r, c); a torus if periodic.

    Raises:
        TopologyError: rows * columns is not n.
    """
    rows, columns = sides(n, rows, columns)
    graph = nx.grid_2d_graph(rows, columns, periodic=periodic)
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")


def sides(n: int, rows: int | None, columns: int | None) -> tuple[int, int]:
    """Rows and columns; what is not given is chosen, as square as n allows.

    Raises:
        TopologyError: rows * columns is not n.
    """
    if rows is None and columns is None:
        rows = max(r for r in range(1, math.isqrt(n) + 1) if n % r == 0)
    rows = rows if rows is not None else n // max(columns or 1, 1)
    columns = columns if columns is not None else n // max(rows, 1)
    if rows < 1 or rows * columns != n:
        raise TopologyError(
            f"rows={rows} x columns={columns} is not n={n}: give two that multiply to n, or neither"
        )
    return rows, columns


def hypercube(n: int) -> nx.Graph:
    """Neighbours differ in one bit of their number.

    Raises:
        TopologyError: n is not a power of two.
    """
    dimension = n.bit_length() - 1
    if n != 2**dimension:
        raise TopologyError(
            f"hypercube: n must be a power of two, got n={n}: "
            f"use {2**dimension} or {2 ** (dimension + 1)} learners"
        )
    graph = nx.hypercube_graph(dimension)
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")


def balanced_tree(n: int, degree: int) -> nx.Graph:
    """A tree filled layer by layer whose inner learners have `degree` neighbours, root 0.

    Raises:
        TopologyError: degree < 2.

    References:
        Vogels et al., "RelaySum for decentralized deep learning on heterogeneous data",
        NeurIPS 2021, arXiv 2110.04175.
    """
    if degree < 2:
        raise TopologyError(f"balanced-tree: degree must be at least 2, got {degree}")
    learners = np.arange(1, n)
    below_first = 1 + (learners - degree - 1) // (degree - 1)
    graph = nx.empty_graph(n)
    parents = np.where(learners <= degree, 0, below_first).tolist()
    graph.add_edges_from(zip(parents, range(1, n), strict=True))
    return graph


def binary_tree(n: int) -> nx.Graph:
    """Learner 0 hangs above the root 1 of a heap: v's parent is v // 2.

    References:
        Vogels et al., "RelaySum for decentralized deep learning on heterogeneous data",
        NeurIPS 2021, arXiv 2110.04175.
    """
    graph = nx.empty_graph(n)
    graph.add_edges_from((v // 2, v) for v in range(1, n))
    return graph


def double_binary_tree(n: int) -> nx.Graph:
    """The binary tree and its mirror image: who is inside one is mostly a leaf of the other.

    References:
        Sanders, Speck, Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and
        scan", 2009; as used by Vogels et al. 2021.
    """
    tree = binary_tree(n)
    graph = tree.copy()
    graph.add_edges_from((n - 1 - i, n - 1 - j) for i, j in tree.edges)
    return graph


def random_regular(n: int, degree: int | None, seed: int) -> nx.Graph:
    """A connected random graph where every learner has `degree` neighbours (None: min(4, n - 1)).

    Raises:
        TopologyError: there is no such graph, or no connected one was drawn.
    """
    d = min(4, n - 1) if degree is None else degree
    if not 0 <= d < n or n * d % 2:
        raise TopologyError(
            f"random-regular: degree={d} does not fit n={n}: it must be below n, and "
            "n * degree even"
        )
    return _connected("random-regular", seed, lambda s: nx.random_regular_graph(d, n, seed=s))


def erdos_renyi(n: int, probability: float | None, seed: int) -> nx.Graph:
    """Each edge exists with `probability` (None: 2 ln(n) / n); drawn again until connected.

    Raises:
        TopologyError: the probability is outside (0, 1], or 100 draws were all disconnected.
    """
    p = min(1.0, 2 * math.log(n) / n) if probability is None else probability
    if not 0 < p <= 1:
        raise TopologyError(f"erdos-renyi: probability must be in (0, 1], got {p}")
    return _connected("erdos-renyi", seed, lambda s: nx.fast_gnp_random_graph(n, p, seed=s))


def small_world(n: int, degree: int | None, rewiring: float, seed: int) -> nx.Graph:
    """A ring with `degree` nearest neighbours (None: 4 if n allows), some edges rewired at random.

    Raises:
        TopologyError: degree is odd or not below n, or rewiring is outside [0, 1].

    References:
        Watts, Strogatz, "Collective dynamics of small-world networks", 1998.
    """
    d = min(4, 2 * ((n - 1) // 2)) if degree is None else degree
    if not 0 <= rewiring <= 1:
        raise TopologyError(f"small-world: rewiring must be in [0, 1], got {rewiring}")
    if n <= 2 and degree is None:
        return nx.path_graph(n)
    if d % 2 or not 2 <= d < n:
        raise TopologyError(
            f"small-world: degree must be even, at least 2 and below n={n}, got {d}"
        )
    return _connected(
        "small-world", seed, lambda s: nx.watts_strogatz_graph(n, d, rewiring, seed=s)
    )


def _connected(name: str, seed: int, draw) -> nx.Graph:
    """The first connected graph of `draw(seed)` over seeds addressed by the user's one.

    Raises:
        TopologyError: none of 100 draws was connected.
    """
    for attempt in range(MOST_TRIES):
        address = np.random.default_rng([seed, GRAPH_STREAM, attempt])
        graph = draw(int(address.integers(2**31)))
        if nx.is_connected(graph):
            return graph
    raise TopologyError(
        f"{name}: none of {MOST_TRIES} random graphs was connected: ask for more edges"
    )


SOCIAL = {
    "karate": nx.karate_club_graph,
    "davis": nx.davis_southern_women_graph,
    "florentine": nx.florentine_families_graph,
    "les-miserables": nx.les_miserables_graph,
}
"""Social graphs that networkx carries; their tie strengths are not used."""


def social(name: str, n: int) -> nx.Graph:
    """The social graph called `name`, nodes in the order networkx declares them.

    Raises:
        TopologyError: n is not its number of nodes.
    """
    graph = SOCIAL[name]()
    if n != len(graph):
        raise TopologyError(
            f"{name}: this graph has {len(graph)} learners, got n={n}: use {len(graph)}"
        )
    return nx.convert_node_labels_to_integers(graph)
