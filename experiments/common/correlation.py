"""Rank correlation of two courses, and what is left of it at equal values of others."""

import numpy as np
from scipy.stats import rankdata


def partial_rank_correlation(a: np.ndarray, b: np.ndarray, *given: np.ndarray) -> float:
    """Spearman's correlation of a and b, given others: that of what these leave of their ranks.

    The ranks of the others are taken out of those of a and b by least squares. Two courses that
    both rise with time are correlated for that alone; given time, they need not be.

    Args:
        a: [m], without NaN.
        b: [m].
        *given: each [m]; none for Spearman's correlation itself.

    Returns:
        In [-1, 1]; NaN where nothing is left of a or b.
    """
    ones = np.ones(len(a))
    known = np.stack([ones, *map(rankdata, given)], axis=1)
    ranks = np.stack([rankdata(a), rankdata(b)], axis=1)
    x, y = (ranks - known @ np.linalg.lstsq(known, ranks, rcond=None)[0]).T
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 1e-12 * len(a) ** 3 else np.nan
