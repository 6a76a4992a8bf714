"""Random choice of the neighbour that a learner averages with during a gradient."""

import numpy as np
from scipy.sparse import csr_array

from gossip.streams import ASYNC, generator
from gossip.study import Study


def partner(study: Study, learner: int, k: int) -> int | None:
    """The neighbour that `learner` averages with at its k-th gradient; None: with nobody.

    Drawn at (seed, ASYNC, learner, k) with the weights of the learner's neighbours in row
    `learner` of W as probabilities, by their size; W is that of step k, as DPSGD would have it.
    """
    w = study.mixing_matrix(k)
    return None if w is None else draw_partner(w, study.config.seed, learner, k)


def draw_partner(w: csr_array, seed: int, learner: int, k: int) -> int | None:
    """As `partner`, from W and the seed."""
    row = slice(w.indptr[learner], w.indptr[learner + 1])
    others = w.indices[row] != learner
    neighbours, weights = w.indices[row][others], np.abs(w.data[row][others])
    total = weights.sum()
    if not total:
        return None
    draw = generator(seed, ASYNC, learner, k)
    return int(draw.choice(neighbours, p=weights / total))
