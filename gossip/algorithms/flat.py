r"""Stationary variance between learners on a flat landscape, by the spectrum of W.

Where gradients are noise, independent between learners and steps with variance s^2 per coordinate,
and nothing is curved,

.. math:: \sigma_w^2 = \frac{\alpha^2 s^2}{n^2} \sum_{\lambda \ne 1} f(\lambda)

per coordinate, in the units of the monitor's column, with the eigenvalues of a symmetric W that is
the same at every step, and f the method's own. Checked against simulation in the tests; for DPSGD
it is what is known of stochastic consensus.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gossip.comm.by_identity import ByIdentity
from topologies.spectrum import DENSE

FlatSpread = Callable[[csr_array], float | None]
"""W -> (1/n) sum f(lambda); None where the formula is not for this W."""
LEAST_GAP = 1e-9
"""Between 1 and the other |lambda|; where one is 1, the variance grows for ever."""


def sum_over_spectrum(f: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> FlatSpread:
    """The sum over eigenvalues, remembered for each W."""

    def of(w: csr_array) -> float | None:
        n = w.shape[0]
        if n > DENSE or abs(w - w.T).max() > 1e-12:
            return None
        eigenvalues = np.linalg.eigvalsh(w.toarray())[:-1]
        if np.abs(eigenvalues).max(initial=0) > 1 - LEAST_GAP:
            return None
        return float(f(eigenvalues).sum()) / n

    return ByIdentity(of)


awc = sum_over_spectrum(lambda eigenvalues: 1 / (1 - eigenvalues**2))
"""DPSGD, where gradients are taken."""
atc = sum_over_spectrum(lambda eigenvalues: eigenvalues**2 / (1 - eigenvalues**2))
"""Adapt, then combine: after the averaging."""
exact_diffusion = sum_over_spectrum(
    lambda eigenvalues: 2 * eigenvalues**2 / ((1 - eigenvalues) * (1 + 3 * eigenvalues))
)
"""D^2, after the averaging."""
