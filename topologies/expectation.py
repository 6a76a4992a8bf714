"""lambda_2(E[W^T (I - J) W]): how fast a random topology averages, in expectation."""

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from topologies.matrices import num_learners
from topologies.spectrum import DENSE, largest_eigenvalue
from topologies.topology import Topology

SAMPLES = {64: 2000, DENSE: 400}
"""Steps a Monte Carlo estimate takes, by the largest n it is for."""
SAMPLES_OF_LARGE = 100


def expected_lambda2(topology: Topology) -> tuple[float, str]:
    """The value, and how it was got: 'closed form', or 'Monte Carlo, N samples'."""
    if topology.expected_contraction is not None:
        return topology.expected_contraction(), "closed form"
    samples = next((s for n, s in SAMPLES.items() if topology.n <= n), SAMPLES_OF_LARGE)
    return sampled_lambda2(topology, samples), f"Monte Carlo, {samples} samples"


def sampled_lambda2(topology: Topology, samples: int) -> float:
    r"""The largest eigenvalue of the mean of W^T (I - J) W over steps 0..samples-1.

    Being the largest of a noisy matrix it is biased upwards, by O(1 / sqrt(samples)).
    """
    n = topology.n
    matrices = [topology.matrix(t) for t in range(samples)]
    if n <= DENSE:
        mean = sum(_gram(w) for w in matrices) / samples
        return float(np.linalg.eigvalsh(mean)[-1])
    stacked = csr_array(sparse.vstack(matrices))
    transposed = csr_array(stacked.T)

    def apply(x: np.ndarray) -> np.ndarray:
        x = x - x.mean()
        mixed = (stacked @ x).reshape(samples, n)
        x = transposed @ (mixed - mixed.mean(axis=1, keepdims=True)).ravel() / samples
        return x - x.mean()

    return largest_eigenvalue(n, apply)


def _gram(w: csr_array) -> np.ndarray:
    columns = w.sum(axis=0)
    return (w.T @ w).toarray() - np.outer(columns, columns) / num_learners(w)
