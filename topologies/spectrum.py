r"""Singular values and eigenvalues of mixing matrices, for n from 1 to thousands.

Four ways, the first that applies: circulant matrices by FFT (exact), small ones dense, large ones
by Lanczos with the all-ones vector projected out, and where Lanczos does not converge because the
spectral gap is tiny (a chain of 4096 has 1e-7) by shift-invert, which is cheap on such thin graphs.
"""

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from topologies.matrices import num_learners

DENSE = 512
"""Largest n for which dense linear algebra is used."""
NOISE = 1e-12
"""Norms below this are sums of rounding errors."""

Vector = NDArray[np.float64]
Apply = Callable[[Vector], Vector]


def deviation_norm(matrices: Sequence[csr_array]) -> float:
    r"""||(I - J) W(tau-1) ... W(0)||_2, the contraction of the deviation over these steps.

    Equal to ||W(tau-1) ... W(0) - J||_2 for doubly stochastic matrices; of a single one it is the
    second-largest singular value sigma2.
    """
    n = num_learners(matrices[0])
    if n == 1:
        return 0.0
    spectra = [s for w in matrices if (s := circulant_eigenvalues(w)) is not None]
    if len(spectra) == len(matrices):
        return float(np.abs(np.prod(np.stack(spectra), axis=0)[1:]).max())
    if n <= DENSE:
        return float(np.linalg.norm(dense_deviation(matrices), 2))
    if len(matrices) == 1:
        return _large_sigma2(matrices[0])
    return float(np.sqrt(largest_eigenvalue(n, _gram(matrices))))


def dense_deviation(matrices: Sequence[csr_array]) -> NDArray[np.float64]:
    """(I - J) W(tau-1) ... W(0), shape [n, n]."""
    product = matrices[0].toarray()
    for w in matrices[1:]:
        product = w @ product
    return product - product.mean(axis=0)


def abs_lambda2(w: csr_array) -> float:
    """Second-largest modulus of the eigenvalues of a row-stochastic W."""
    n = num_learners(w)
    if n == 1:
        return 0.0
    if (spectrum := circulant_eigenvalues(w)) is not None:
        return float(np.abs(spectrum[1:]).max())
    if is_symmetric(w):
        return deviation_norm([w])
    if n <= DENSE:
        return float(np.abs(np.linalg.eigvals(dense_deviation([w]))).max())
    operator = _operator(n, lambda x: _centred(w @ x))
    try:
        return float(np.abs(eigs(operator, 1, v0=_start(n), return_eigenvectors=False)).max())
    except ArpackNoConvergence:
        return float(np.abs(np.linalg.eigvals(dense_deviation([w]))).max())


def eigenvalues(w: csr_array) -> NDArray[np.complex128]:
    """All n eigenvalues of W, dense, largest modulus first."""
    values = np.linalg.eigvals(w.toarray())
    return values[np.argsort(-np.abs(values), kind="stable")]


def least_eigenvalue(w: csr_array) -> float:
    """lambda_n of a symmetric W whose eigenvalues are at most 1."""
    n = num_learners(w)
    if n <= DENSE:
        return float(np.linalg.eigvalsh(w.toarray())[0])
    return 1 - largest_eigenvalue(n, lambda x: x - w @ x)


def circulant_eigenvalues(w: csr_array) -> NDArray[np.complex128] | None:
    """The n eigenvalues of W by FFT if each row is the one above shifted by one; else None.

    Entry 0 belongs to the all-ones vector; entry k to the wave of frequency k, so that the
    eigenvalues of a product of circulant matrices are the products of theirs.
    """
    n = num_learners(w)
    if is_constant(w):
        return np.fft.fft(np.full(n, w.data[0]))
    per_row = int(w.indptr[1])
    if w.nnz != n * per_row or (np.diff(w.indptr) != per_row).any():
        return None
    offsets = (w.indices.reshape(n, per_row) - np.arange(n)[:, None]) % n
    order = np.argsort(offsets, axis=1)
    offsets = np.take_along_axis(offsets, order, axis=1)
    values = np.take_along_axis(w.data.reshape(n, per_row), order, axis=1)
    if (offsets != offsets[0]).any() or (np.ptp(values, axis=0) > 1e-15).any():
        return None
    first_row = np.zeros(n)
    first_row[offsets[0]] = values[0]
    return np.fft.fft(first_row)


def is_symmetric(w: csr_array) -> bool:
    """Whether W = W^T to rounding."""
    if is_constant(w):
        return True
    difference = abs(w - w.T)
    return difference.nnz == 0 or float(difference.max()) <= 1e-14


def is_constant(w: csr_array) -> bool:
    """Whether all n^2 entries are stored and equal: J, which at n = 4096 is slow to look at."""
    return w.nnz == num_learners(w) ** 2 and bool(np.ptp(w.data) == 0)


def laplacian_extremes(graph: nx.Graph) -> tuple[float, float]:
    """Smallest non-zero and largest eigenvalue of the Laplacian of a connected graph, 0..n-1."""
    n = len(graph)
    laplacian = csr_array(nx.laplacian_matrix(graph, range(n), weight=None), dtype=np.float64)
    if n <= DENSE:
        values = np.linalg.eigvalsh(laplacian.toarray())
        return float(values[1]), float(values[-1])
    # All eigenvalues lie between 0 and 2 d_max: shifts just outside find the ones at the ends.
    above = 2 * float(laplacian.diagonal().max()) + 1e-9
    try:
        largest = largest_eigenvalue(n, lambda x: laplacian @ x, tolerances=(0,))
    except ArpackNoConvergence:
        largest = float(_near(laplacian, above).max())
    try:
        # c I - L on the complement of 1 has its largest eigenvalue at c - lambda_{n-1}.
        smallest = largest - largest_eigenvalue(
            n, lambda x: _centred(largest * x - laplacian @ x), tolerances=(0,)
        )
    except ArpackNoConvergence:
        smallest = float(_near(laplacian, -1e-9).max())
    return smallest, largest


def largest_eigenvalue(
    n: int, apply: Apply, tolerances: Sequence[float] = (0, 1e-6, 1e-3)
) -> float:
    """Largest eigenvalue of a symmetric positive semi-definite operator, by Lanczos.

    Raises:
        ArpackNoConvergence: not even to the last of the relative `tolerances`.
    """
    x = apply(_start(n))
    if np.linalg.norm(x) <= NOISE**2 * n:
        return 0.0
    operator = _operator(n, apply)
    for tolerance in tolerances:
        try:
            (value,) = eigsh(
                operator,
                1,
                which="LA",
                ncv=min(n, 40),
                v0=_start(n),
                maxiter=60,
                tol=tolerance,
                return_eigenvectors=False,
            )
            return max(float(value), 0.0)
        except ArpackNoConvergence:
            if tolerance == tolerances[-1]:
                raise
    raise AssertionError


def _large_sigma2(w: csr_array) -> float:
    """sigma2 of one large W."""
    n = num_learners(w)
    columns = w.sum(axis=0)
    doubly_stochastic = np.abs(columns - 1).max() <= NOISE * n
    if not doubly_stochastic:
        return float(np.sqrt(largest_eigenvalue(n, _gram([w]))))
    # Parts that do not touch keep their own means. A star's W^T W would be full: not needed.
    touching = w if is_symmetric(w) else csr_array(w.T @ w)
    if connected_components(touching, directed=False, return_labels=False) > 1:
        return 1.0
    try:
        return float(np.sqrt(largest_eigenvalue(n, _gram([w]), tolerances=(0,))))
    except ArpackNoConvergence:
        return float(np.sqrt(_near(csr_array(w.T @ w), 1 + 1e-9).min()))


def _operator(n: int, apply: Apply) -> LinearOperator:
    # scipy builds a subclass in __new__, which type checkers cannot follow.
    return LinearOperator((n, n), matvec=apply, dtype=np.float64)  # pyrefly: ignore


def _near(symmetric: csr_array, shift: float) -> Vector:
    """The two eigenvalues nearest to `shift`, by shift-invert."""
    return eigsh(
        symmetric.tocsc(),
        2,
        sigma=shift,
        v0=np.random.default_rng(0).standard_normal(num_learners(symmetric)),
        return_eigenvectors=False,
    )


def _gram(matrices: Sequence[csr_array]) -> Apply:
    """The map x -> A^T A x with A = (I - J) W(tau-1) ... W(0), on the complement of 1."""

    def apply(x: Vector) -> Vector:
        x = _centred(x)
        for w in matrices:
            x = w @ x
        x = _centred(x)
        for w in reversed(matrices):
            x = w.T @ x
        return _centred(x)

    return apply


def _centred(x: Vector) -> Vector:
    return x - x.mean()


def _start(n: int) -> Vector:
    """A fixed start vector without a mean, so that every call gives the same digits."""
    return _centred(np.random.default_rng(0).standard_normal(n))
