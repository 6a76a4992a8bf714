"""Topologies from a user's own graphs, matrices and functions."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from topologies import rounding
from topologies.matrices import canonical, num_learners
from topologies.options import checked_options, suggestion
from topologies.static import DEFAULT_WEIGHTS, static
from topologies.topology import Topology, TopologyError, TopologyWarning
from topologies.weights import mixing_matrix


def from_graph(graph: nx.Graph, *, weights: str = DEFAULT_WEIGHTS, name: str = "graph") -> Topology:
    """The static topology of a connected undirected graph; its edges' own weights are not used.

    Learner numbers: nodes that are numbers, or the text of whole numbers, in rising order; any
    others in the order in which the graph declares them.

    Raises:
        TopologyError: the graph is directed, empty or disconnected, has a self-loop or a weight
            that is not finite; or the rule does not fit.
    """
    if graph.is_directed():
        raise TopologyError(
            f"{name}: the graph is directed, it must not be: give an undirected one"
        )
    if len(graph) == 0:
        raise TopologyError(f"{name}: the graph has no nodes, it needs at least one")
    if loop := next(nx.selfloop_edges(graph), None):
        raise TopologyError(
            f"{name}: node {loop[0]!r} has a self-loop: remove it, W adds its own weights"
        )
    for i, j, value in graph.edges(data="weight", default=1.0):
        if not np.isfinite(_number(value)):
            raise TopologyError(f"{name}: edge {i!r} - {j!r} has the weight {value}, not a number")
    if not nx.is_connected(graph):
        parts = nx.number_connected_components(graph)
        raise TopologyError(f"{name}: the graph has {parts} disconnected parts: connect them")
    order = {node: i for i, node in enumerate(learner_order(graph))}
    numbered = nx.empty_graph(len(graph))
    numbered.add_edges_from((order[i], order[j]) for i, j in graph.edges())
    return static(name, mixing_matrix(numbered, weights), numbered)


def learner_order(graph: nx.Graph) -> list[Any]:
    """Nodes in the order of their learner numbers."""
    try:
        return sorted(graph, key=lambda node: node if isinstance(node, int | float) else int(node))
    except (TypeError, ValueError):
        return list(graph)


def from_matrices(
    name: str, matrices: Sequence[Any], *, place: rounding.Place | None = None
) -> Topology:
    """The periodic topology of a list of matrices [n, n] (dense or sparse) or networkx graphs.

    Graphs get Metropolis-Hastings weights, have the same nodes (numbered as in `from_graph` of the
    first) and need not be connected one by one. A matrix whose sums miss 1 by its rounding is put
    right, see `topologies.rounding.settled`.

    Args:
        name: of the topology.
        matrices: at least one.
        place: where their numbers are rounded; None: the last place of their types.

    Raises:
        TopologyError: the list is empty, or something in it is no square matrix of the same n.

    Warns:
        TopologyWarning: a matrix was put right.
    """
    if len(matrices) == 0:
        raise TopologyError(f"{name}: the list of matrices is empty, it needs at least one")
    order = learner_order(matrices[0]) if isinstance(matrices[0], nx.Graph) else []
    pairs = [rounding.settled(*_matrix(name, m, order, place)) for m in matrices]
    sequence, missed = [w for w, _ in pairs], max(by for _, by in pairs)
    if missed:
        message = (
            f"{name}: its numbers are rounded, a sum differs from 1 by {missed:.3g}: they were "
            "changed by about as much, to sums of 1"
        )
        warnings.warn(message, TopologyWarning, stacklevel=2)
    n = num_learners(sequence[0])
    for t, w in enumerate(sequence):
        if w.shape != (n, n):
            raise TopologyError(
                f"{name}: W({t}) has shape {w.shape} and W(0) {sequence[0].shape}: "
                "all must be square and of one size"
            )
    return Topology(name, n, len(sequence), lambda t: sequence[t])


def topology_of(name: str, made: Any, **options: Any) -> Topology:
    """A topology from what a user's function or file gave.

    Raises:
        TopologyError: it is neither a Topology, a graph, a matrix nor a list of them.
    """
    if isinstance(made, Topology):
        return made
    if isinstance(made, nx.Graph):
        return from_graph(made, name=name, **checked_options(name, from_graph, options))
    checked_options(name, lambda made: made, options)
    if isinstance(made, rounding.Rounded):
        values = made.values
        return from_matrices(name, list(values) if values.ndim == 3 else [values], place=made.place)
    if isinstance(made, list | tuple):
        return from_matrices(name, made)
    if isinstance(made, np.ndarray) and made.ndim == 3:
        return from_matrices(name, list(made))
    return from_matrices(name, [made])


def from_function(spec: str, n: int, options: dict[str, Any]) -> Topology:
    """The topology of a user's own `module:function`, called as function(n, **options).

    Only for what stands on a command line or in the user's own Python: it runs code.

    Raises:
        TopologyError: it cannot be imported or called, or gives none of the allowed kinds.
    """
    function = _imported(spec)
    try:
        checked = checked_options(spec, function, options)
        inspect.signature(function).bind(n, **checked)
    except TopologyError:
        raise
    # Those of inspect and typing: no signature, another one, an annotation that names nothing.
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise TopologyError(
            f"{spec}: it cannot be called as function(n, **options): {error}"
        ) from error
    return topology_of(spec, function(n, **checked))


def _imported(spec: str) -> Callable[..., Any]:
    """The function behind `module:function`, looked for in the current folder too."""
    module_name, _, name = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    # An import runs the user's module, which may raise anything.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if isinstance(error, ModuleNotFoundError):
            reason += f"; looked in {here} and on PYTHONPATH"
        raise TopologyError(f"{spec}: cannot import {module_name!r} ({reason})") from error
    if not hasattr(module, name):
        names = [n for n, value in vars(module).items() if callable(value)]
        hint = suggestion(name, names)
        raise TopologyError(f"{spec}: {module_name!r} has no function {name!r}{hint}")
    found = getattr(module, name)
    if not callable(found):
        raise TopologyError(
            f"{spec}: {name!r} is not callable ({type(found).__name__}): give a function"
        )
    return found


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _matrix(
    name: str, given: Any, order: list[Any], place: rounding.Place | None
) -> tuple[csr_array, rounding.Place]:
    """A copy of the user's matrix as canonical CSR, and the place it is rounded at.

    A copy, since what they do with theirs later is theirs.
    """
    if isinstance(given, nx.Graph):
        given = _graph_matrix(name, given, order)
    if place is None:
        dtype = getattr(given, "dtype", None)
        place = rounding.place_of_type(dtype) if isinstance(dtype, np.dtype) else rounding.exact
    if not sparse.issparse(given):
        try:
            given = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise TopologyError(
                f"{name}: expected a matrix of numbers, a graph or a Topology, "
                f"got {type(given).__name__}"
            ) from None
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] == 0:
        raise TopologyError(f"{name}: a mixing matrix is square, [n, n], got shape {given.shape}")
    return canonical(csr_array(given, dtype=np.float64, copy=True)), place


def _graph_matrix(name: str, graph: nx.Graph, order: list[Any]) -> csr_array:
    """W of one undirected graph of a list whose nodes are those in `order`."""
    if graph.is_directed():
        raise TopologyError(f"{name}: a graph of the list is directed: give undirected ones")
    if set(graph) != set(order):
        raise TopologyError(
            f"{name}: the graphs of the list have different nodes: give all the same"
        )
    place = {node: i for i, node in enumerate(order)}
    numbered = nx.empty_graph(len(order))
    numbered.add_edges_from((place[i], place[j]) for i, j in graph.edges())
    return mixing_matrix(numbered, DEFAULT_WEIGHTS)
