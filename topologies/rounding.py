r"""Matrices whose numbers were rounded: their sums are 1 again, as they were before.

A doubly stochastic W in float32, or printed with few digits, has sums that miss 1. What lies
within the last places of its numbers is put right, so that W is what its author meant; what
lies beyond is no rounding, and is left for `topologies.check` to refuse.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsmr

from topologies.matrices import num_learners

Place = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Numbers -> how far each may be from what it was before it was rounded."""

FEWEST_DIGITS = 2
"""Numbers of fewer digits were not rounded: 0.5 and 0.4 are a mistake."""
ROUNDS = 8
"""Newton's steps towards sums of 1; each squares what is left of at most a tenth."""
TOLERANCE = 1e-12
"""How far a sum may be from 1, for each learner: float64's own rounding is no one's mistake."""
_NUMBER = re.compile(r"[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?")


class Rounded(NamedTuple):
    """Numbers, and the place they are rounded at."""

    values: NDArray[np.float64] | sparse.sparray
    """A matrix [n, n] or a sequence of them, [period, n, n]."""
    place: Place


def exact(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers that were not rounded."""
    return np.zeros_like(values)


def place_of_type(dtype: np.dtype) -> Place:
    """2 eps |x| of a floating-point type: its own rounding, and that of sums taken in it."""
    if dtype.kind != "f":
        return exact
    eps = float(np.finfo(dtype).eps)
    return lambda x: 2 * eps * np.abs(x)


def place_of_text(lines: Iterable[str]) -> Place:
    """Half of the last digit of numbers that are printed alike, separated by commas.

    With d digits behind the point at most, and p significant ones: a number x may be as printed by
    %.df or by %.pg, so half of the larger of 10^-d and 10^(floor(log10 |x|) - p + 1).
    """
    decimals, digits = 0, 0
    for line in lines:
        for match in map(_NUMBER.fullmatch, map(str.strip, line.split(","))):
            if match:
                whole, fraction, exponent = match.groups(default="")
                decimals = max(decimals, len(fraction) - int(exponent or 0))
                digits = max(digits, len((whole + fraction).lstrip("0")))
    if digits < FEWEST_DIGITS:
        return exact
    last = 10.0**-decimals
    return lambda x: np.maximum(last, 10.0 ** (np.floor(np.log10(np.abs(x))) - digits + 1)) / 2


def settled(w: csr_array, place: Place) -> tuple[csr_array, float]:
    r"""W with sums of 1, and what the largest sum had missed; W itself if that is no rounding.

    On the diagonal, where that settles rows and columns at once: W_jj + 1 - \sum_k W_jk, for
    symmetric and circulant W with weights of their own. Else by scaling rows and columns, as
    Sinkhorn and Knopp do: a_j W_jk b_k, where zeros stay zeros and a symmetric W symmetric.

    Args:
        w: canonical, [n, n].
        place: of its numbers.

    References:
        Sinkhorn, Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967.
    """
    n, missing = num_learners(w), _missing(w)
    largest = float(np.abs(missing).max())
    if not TOLERANCE * n < largest < np.inf:
        return w, 0.0
    places = csr_array((place(w.data), w.indices, w.indptr), shape=w.shape)
    allowed = np.concatenate([places.sum(axis=1), places.sum(axis=0)])
    if (np.abs(missing) > allowed * (1 + 1e-9) + 1e-15).any():
        return w, 0.0
    made = _on_the_diagonal(w, missing)
    if made is None:
        made = _scaled(w)
    # Zeros in unlucky places leave no such scaling: then nothing is put right.
    return (made, largest) if np.abs(_missing(made)).max() <= TOLERANCE * n else (w, 0.0)


def _missing(w: csr_array) -> NDArray[np.float64]:
    """What the sums of the rows, then those of the columns, lack of 1; [2 n]."""
    return 1 - np.concatenate([w.sum(axis=1), w.sum(axis=0)])


def _on_the_diagonal(w: csr_array, missing: NDArray[np.float64]) -> csr_array | None:
    """W with what is missing added to W_jj; None where rows and columns need not be alike."""
    rows, columns = np.split(missing, 2)
    own = w.diagonal()
    rows = np.where(np.abs(rows) < 1e-15, 0.0, rows)
    if np.abs(rows - columns).max() > 1e-14 or (np.abs(own) < np.abs(rows)).any():
        return None
    return csr_array(w + sparse.diags_array(rows))


def _scaled(w: csr_array) -> csr_array:
    """Diagonal matrices around W, by Newton's method: (1 + x_j) W_jk (1 + y_k)."""
    n, symmetric = num_learners(w), (w - w.T).nnz == 0
    for _ in range(ROUNDS):
        missing = _missing(w)
        if np.abs(missing).max() <= 1e-14 * n:
            break
        sums = [sparse.diags_array(s) for s in np.split(1 - missing, 2)]
        system = sparse.block_array([[sums[0], w], [w.T, sums[1]]], format="csr")
        # It is singular, (1, -1) changing nothing: the least solution, for which x = y if W = W^T.
        solution = lsmr(system, missing, atol=1e-12, btol=1e-12, conlim=0, maxiter=20 * n)[0]
        x, y = np.split(1 + solution, 2)
        w = csr_array(sparse.diags_array(x) @ w @ sparse.diags_array(y))
        if symmetric:
            w = csr_array((w + w.T) / 2)
    return w
