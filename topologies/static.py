"""Topologies that are the same at every step."""

import math
from collections.abc import Callable

import networkx as nx
from scipy.sparse import csr_array

from topologies import graphs
from topologies.matrices import average, circulant, identity, num_learners
from topologies.topology import Topology, TopologyError
from topologies.weights import mixing_matrix

DEFAULT_WEIGHTS = "metropolis-hastings"
MOST_FOR_AVERAGE = 16384
"""Learners up to which J is stored entry by entry (3 GB)."""


def static(name: str, matrix: csr_array, graph: nx.Graph | None = None) -> Topology:
    """The topology whose W(t) is `matrix` at every step."""
    return Topology(name, num_learners(matrix), 1, lambda t: matrix, graph=graph)


def on_graph(name: str, n: int, weights: str, draw: Callable[[], nx.Graph]) -> Topology:
    """The topology of the graph that `draw` makes for n > 1 learners; [1] for n = 1."""
    graph = nx.empty_graph(1) if n == 1 else draw()
    return static(name, mixing_matrix(graph, weights), graph)


def complete(n: int) -> Topology:
    """W = J: everyone averages with everyone, exactly, in one step."""
    return static("complete", exact_average("complete", n))


def exact_average(name: str, n: int) -> csr_array:
    """J, with all its n^2 entries.

    Raises:
        TopologyError: it would not fit in memory.
    """
    if n > MOST_FOR_AVERAGE:
        raise TopologyError(
            f"{name}: n={n} learners would need {12e-9 * n * n:.0f} GB for the matrix J, at most "
            f"n={MOST_FOR_AVERAGE} is allowed: use one-peer-exponential"
        )
    return average(n)


def ring(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """1/3 on itself, left and right; |lambda_2| = (1 + 2 cos(2 pi / n)) / 3 for n >= 4.

    Source: Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017.
    """
    return on_graph("ring", n, weights, lambda: graphs.ring(n))


def chain(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """A ring cut open; its gap is that of the ring of 2n."""
    return on_graph("chain", n, weights, lambda: nx.path_graph(n))


def star(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """Learner 0 in the centre; gap 1/n."""
    return on_graph("star", n, weights, lambda: nx.star_graph(n - 1))


def grid(
    n: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    weights: str = DEFAULT_WEIGHTS,
) -> Topology:
    """Open rows x columns grid, as square as n allows."""
    return on_graph("grid", n, weights, lambda: graphs.grid(n, rows, columns, periodic=False))


def torus(
    n: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    weights: str = DEFAULT_WEIGHTS,
) -> Topology:
    """Closed rows x columns grid: 1/5 on itself and its four neighbours if both are >= 3."""
    return on_graph("torus", n, weights, lambda: graphs.grid(n, rows, columns, periodic=True))


def hypercube(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """Neighbours differ in one bit; n must be a power of two; gap 2 / (1 + log2 n)."""
    return on_graph("hypercube", n, weights, lambda: graphs.hypercube(n))


def exponential(n: int) -> Topology:
    """Sends to i + 1, i + 2, i + 4, ...; 1 / (tau + 1) each, tau = ceil(log2 n); directed.

    gap = 2 / (1 + tau) for even n, more for odd n.

    Source: Ying et al., "Exponential graph is provably efficient for decentralized deep
    training", 2021.
    """
    tau = math.ceil(math.log2(n))
    matrix = circulant(n, dict.fromkeys([0, *(2**j for j in range(tau))], 1 / (tau + 1)))
    return static("exponential", matrix if n > 1 else identity(1))


def random_regular(
    n: int, *, degree: int | None = None, seed: int = 0, weights: str = DEFAULT_WEIGHTS
) -> Topology:
    """A connected random graph where everyone has `degree` neighbours (default: 4 if n allows)."""
    return on_graph("random-regular", n, weights, lambda: graphs.random_regular(n, degree, seed))


def erdos_renyi(
    n: int, *, probability: float | None = None, seed: int = 0, weights: str = DEFAULT_WEIGHTS
) -> Topology:
    """Every edge with the same probability (default 2 ln(n) / n), drawn until connected."""
    return on_graph("erdos-renyi", n, weights, lambda: graphs.erdos_renyi(n, probability, seed))


def small_world(
    n: int,
    *,
    degree: int | None = None,
    rewiring: float = 0.1,
    seed: int = 0,
    weights: str = DEFAULT_WEIGHTS,
) -> Topology:
    """Watts-Strogatz: a ring of nearest neighbours, some edges rewired at random."""
    return on_graph(
        "small-world", n, weights, lambda: graphs.small_world(n, degree, rewiring, seed)
    )


def balanced_tree(n: int, *, degree: int = 3, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """A tree whose inner learners have `degree` neighbours."""
    return on_graph("balanced-tree", n, weights, lambda: graphs.balanced_tree(n, degree))


def binary_tree(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """A heap: v's parent is v // 2."""
    return on_graph("binary-tree", n, weights, lambda: graphs.binary_tree(n))


def double_binary_tree(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """The binary tree and its mirror image."""
    return on_graph("double-binary-tree", n, weights, lambda: graphs.double_binary_tree(n))


def karate(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """Zachary's karate club, 34 learners."""
    return static_social("karate", n, weights)


def davis(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """Davis' southern women and the events they went to, 32 learners."""
    return static_social("davis", n, weights)


def florentine(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """Marriages of Florentine families, 15 learners."""
    return static_social("florentine", n, weights)


def les_miserables(n: int, *, weights: str = DEFAULT_WEIGHTS) -> Topology:
    """Who meets whom in Les Miserables, 77 learners."""
    return static_social("les-miserables", n, weights)


def static_social(name: str, n: int, weights: str) -> Topology:
    """A social graph of networkx; n is fixed by the graph."""
    graph = graphs.social(name, n)
    return static(name, mixing_matrix(graph, weights), graph)
