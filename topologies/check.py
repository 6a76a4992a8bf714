"""Laws that every topology must obey, the table's and the user's."""

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from topologies.matrices import num_learners
from topologies.rounding import TOLERANCE
from topologies.spectrum import DENSE, dense_deviation
from topologies.topology import Topology, TopologyError, TopologyWarning

HORIZON = 64
"""Steps of a random topology that are looked at before it is called disconnected."""
LONGEST = 1024
"""Steps of a periodic topology that are looked at; the last one is always among them."""


def check(topology: Topology) -> Topology:
    """The same topology, if every W(t) averages and all learners are reached.

    Over the whole period (or up to 64 steps of a random one): shape [n, n]; finite; rows, and
    unless the mean is preserved only in expectation columns, sum to 1 within 1e-12 n; the union of
    the graphs strongly connected; and the repeated steps contract.

    Raises:
        TopologyError: it does not hold; the message names the step.

    Warns:
        TopologyWarning: a weight is negative, which is allowed.
    """
    union = None
    negative, seen = False, set()
    for t in steps(topology):
        w = topology.matrix(t)
        if id(w) in seen and not topology.is_random:
            continue
        seen.add(id(w))
        _check_matrix(topology, w, t)
        negative |= bool((w.data < 0).any())
        union = w if union is None else csr_array(abs(union) + abs(w))
        if topology.is_random and is_connected(union):
            break
    assert union is not None, "a topology has at least one step"
    if not is_connected(union):
        _refuse_disconnected(topology, union)
    if negative:
        message = f"{topology.name}: some weights are negative, so mixed values may overshoot"
        warnings.warn(message, TopologyWarning, stacklevel=2)
    _check_contraction(topology, union, negative)
    return topology


def steps(topology: Topology) -> Iterator[int]:
    """The steps worth looking at: the period, or the horizon of a random topology."""
    if topology.period is None:
        yield from range(HORIZON)
        return
    yield from range(min(topology.period, LONGEST))
    if topology.period > LONGEST:
        yield topology.period - 1


def is_connected(union: csr_array) -> bool:
    """Whether every learner reaches every other along the non-zero entries."""
    return connected_components(union, connection="strong", return_labels=False) == 1


def _check_matrix(topology: Topology, w: csr_array, t: int) -> None:
    n, where = topology.n, f"{topology.name}: W({t})"
    if w.shape != (n, n):
        raise TopologyError(f"{where} has shape {w.shape}, but {n} learners need ({n}, {n})")
    if not np.isfinite(w.data).all():
        raise TopologyError(f"{where} has a weight that is not finite: every weight must be")
    row_error, column_error = sum_errors(w)
    if row_error > TOLERANCE * n:
        raise TopologyError(
            f"{where} has a row whose sum differs from 1 by {row_error:.3g}: "
            "row j must hold the weights of receiver j, which sum to 1"
        )
    if column_error > TOLERANCE * n and topology.preserves_mean == "always":
        raise TopologyError(
            f"{where} cannot preserve the mean, a column's sum differs from 1 by "
            f"{column_error:.3g}: make it doubly stochastic, for example symmetric"
        )


def sum_errors(w: csr_array) -> tuple[float, float]:
    """Largest distance of a row sum, and of a column sum, from 1."""
    return float(np.abs(w.sum(axis=1) - 1).max()), float(np.abs(w.sum(axis=0) - 1).max())


def _refuse_disconnected(topology: Topology, union: csr_array) -> None:
    parts = connected_components(union, connection="strong", return_labels=False)
    over = f"{HORIZON} steps" if topology.is_random else "its period"
    raise TopologyError(
        f"{topology.name}: over {over} the {topology.n} learners fall into {parts} groups that "
        "never reach an average: connect them"
    )


def _check_contraction(topology: Topology, union: csr_array, negative: bool) -> None:
    if topology.period is None or topology.n == 1:
        return
    matrices = [topology.matrix(t) for t in steps(topology)]
    if topology.period == 1 and not negative:
        if cycle_gcd(union) > 1:
            raise TopologyError(
                f"{topology.name}: the graph is bipartite (or cyclic) and no learner keeps a part "
                "of its own weights, so |lambda_n| = 1 and it never averages: "
                "use weights 'lazy', (I + W) / 2"
            )
        return
    positive_diagonals = all(w.diagonal().min() > 0 for w in matrices)
    if (positive_diagonals and not negative) or topology.n > DENSE:
        return
    radius = float(np.abs(np.linalg.eigvals(dense_deviation(matrices))).max())
    if radius >= 1 - 1e-12:
        raise TopologyError(
            f"{topology.name}: a period multiplies some deviation from the mean by {radius:.6g}, "
            "so it never averages: use smaller weights between learners, or weights 'lazy'"
        )


def cycle_gcd(connected: csr_array) -> int:
    """Greatest common divisor of all cycle lengths of a strongly connected graph; 1 is aperiodic.

    Along an edge i -> j the breadth-first depth may grow by at most one; what it misses to one
    closes a cycle, and the gcd of these is the gcd of all cycles (Denardo 1977).
    """
    if connected.diagonal().any():
        return 1
    order, parent = breadth_first_order(connected, 0)
    depth = np.zeros(num_learners(connected), dtype=np.int64)
    for i in order[1:]:
        depth[i] = depth[parent[i]] + 1
    edges = connected.tocoo()
    return int(np.gcd.reduce(depth[edges.row] + 1 - depth[edges.col]))
