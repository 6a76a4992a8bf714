r"""Ends and sum of the Hessian's spectrum, from products with it alone.

The ends by Lanczos' method as ARPACK has it (implicitly restarted), the trace by Hutchinson's
estimate over Rademacher vectors v:

.. math:: \mathrm{tr}\, H = \mathbf{E}\, v^\top H v, \qquad
    \mathrm{Var}\, v^\top H v = 2 \sum_{i \ne k} H_{ik}^2

References: Lehoucq, Sorensen, Yang, ARPACK Users' Guide, SIAM 1998; Hutchinson, "A stochastic
estimator of the trace of the influence matrix", Communications in Statistics 18, 1989.
"""

from collections.abc import Callable
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from gossip.streams import LANDSCAPE, generator

HessianProduct = Callable[[Tensor], Tensor]
"""v -> H v, both [d] float64, H symmetric."""

TOLERANCE = 1e-3
"""Of an eigenvalue, relative to itself."""
MOST_RESTARTS = 30
SMALL = 8
"""Up to this size all eigenvalues are taken, of the matrix itself."""
START, RADEMACHER = 0, 1


class Estimate(NamedTuple):
    """An average over draws."""

    value: float
    error: float
    """Its standard error; NaN of a single draw."""


class Ends(NamedTuple):
    """The largest and the least eigenvalue; NaN without convergence or finite products."""

    largest: float
    least: float


def mean_of(draws: list[float]) -> Estimate:
    """Average and standard error."""
    error = float(np.std(draws, ddof=1)) / sqrt(len(draws)) if len(draws) > 1 else nan
    return Estimate(float(np.mean(draws)), error)


def ends(product: HessianProduct, d: int, seed: int) -> Ends:
    """The ends of the spectrum of a symmetric matrix [d, d].

    Args:
        product: multiplies by it.
        d: its size.
        seed: of the vector that the iteration starts from.
    """
    return Ends(largest(product, d, seed), _end(product, d, seed, "SA"))


def largest(product: HessianProduct, d: int, seed: int) -> float:
    """The largest eigenvalue alone, at half the cost of `ends`."""
    return _end(product, d, seed, "LA")


def _end(product: HessianProduct, d: int, seed: int, which: str) -> float:
    start = generator(seed, LANDSCAPE, START).standard_normal(d)
    first = product(torch.from_numpy(start))
    # Asked here: of a matrix that is 0, as of a model whose units are all dead, ARPACK has none.
    if not first.any():
        return 0.0
    if not first.isfinite().all():
        return nan
    if d <= SMALL:
        columns = [product(unit) for unit in torch.eye(d, dtype=torch.float64)]
        values = torch.linalg.eigvalsh(torch.stack(columns))
        return float(values[-1 if which == "LA" else 0])
    operator = LinearOperator(
        (d, d), matvec=lambda v: product(torch.from_numpy(v.reshape(-1))).numpy(), dtype=np.float64
    )
    options = {"tol": TOLERANCE, "v0": start, "maxiter": MOST_RESTARTS}
    try:
        found = eigsh(operator, k=1, which=which, return_eigenvectors=False, **options)
    except ArpackError:  # it did not converge, or numbers grew out of range on the way
        return nan
    return float(found[0])


def trace(product: HessianProduct, d: int, draws: int, seed: int) -> Estimate:
    """Hutchinson's estimate; exact at every draw where H is diagonal.

    Args:
        product: multiplies by it.
        d: its size.
        draws: how many vectors.
        seed: of the vectors.
    """
    values = []
    for draw in range(draws):
        signs = generator(seed, LANDSCAPE, RADEMACHER, draw).integers(0, 2, d)
        v = torch.from_numpy(2.0 * signs - 1.0)
        values.append(float(v @ product(v)))
    return mean_of(values)
