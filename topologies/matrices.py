"""Sparse matrices that topologies are made of. J is the exact average 11^T/n throughout."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array


def canonical(matrix: csr_array) -> csr_array:
    """The same matrix as CSR float64, indices sorted, no duplicates, no explicit zeros.

    A matrix that is so already is returned itself: its identity is worth keeping.
    """
    if not isinstance(matrix, csr_array) or matrix.dtype != np.float64:
        matrix = csr_array(matrix, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if matrix.nnz and not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def identity(n: int) -> csr_array:
    """I, shape [n, n]: nobody talks."""
    return csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))


def average(n: int) -> csr_array:
    """J = 11^T/n, shape [n, n], every entry stored."""
    columns = np.tile(np.arange(n, dtype=np.int32), n)
    rows = np.arange(0, n * n + 1, n, dtype=np.int32)
    return csr_array((np.full(n * n, 1 / n), columns, rows), shape=(n, n))


def circulant(n: int, weight_of_offset: dict[int, float]) -> csr_array:
    r"""W = sum_a c_a P_a, shape [n, n], with (P_a)_{j, j-a} = 1: learner i sends to i + a."""
    offsets = np.fromiter(weight_of_offset, dtype=np.int64)
    weights = np.fromiter(weight_of_offset.values(), dtype=np.float64)
    receivers = np.arange(n)
    columns = (receivers[:, None] - offsets) % n
    return entries(n, np.repeat(receivers, len(offsets)), columns.ravel(), np.tile(weights, n))


def pairs(n: int, first: ArrayLike, second: ArrayLike, weight: float) -> csr_array:
    """I, and for each disjoint pair (first, second): `weight` across, 1 - weight on itself."""
    i, j = np.asarray(first), np.asarray(second)
    own = np.ones(n)
    own[i] = own[j] = 1 - weight
    everyone = np.arange(n)
    across = np.full(2 * len(i), weight)
    return entries(
        n,
        np.concatenate([everyone, i, j]),
        np.concatenate([everyone, j, i]),
        np.concatenate([own, across]),
    )


def with_own_weights(n: int, edges: Iterable[tuple[int, int, float]]) -> csr_array:
    """Symmetric W with W_ij = W_ji = w for each edge (i, j, w) and W_ii = 1 - sum_j W_ij."""
    table = np.array(list(edges), dtype=np.float64).reshape(-1, 3)
    i, j, w = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]
    return from_edges(n, i, j, w)


def from_edges(
    n: int, i: NDArray[np.int64], j: NDArray[np.int64], w: NDArray[np.float64]
) -> csr_array:
    """As `with_own_weights`, from three arrays of the same length."""
    received = np.bincount(i, w, minlength=n) + np.bincount(j, w, minlength=n)
    everyone = np.arange(n)
    return entries(
        n,
        np.concatenate([i, j, everyone]),
        np.concatenate([j, i, everyone]),
        np.concatenate([w, w, 1 - received]),
    )


def entries(n: int, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> csr_array:
    """Canonical CSR matrix [n, n] from triplets; repeated positions add up."""
    return canonical(csr_array((values, (rows, columns)), shape=(n, n)))


def num_learners(w: csr_array) -> int:
    """The n of a matrix [n, n]."""
    return len(w.indptr) - 1
