"""Random choice of the neighbour that a learner averages with during a gradient."""

import numpy as np

from gossip.streams import ASYNC, generator
from gossip.study import Study


def partner(study: Study, learner: int, k: int) -> int | None:
    """The neighbour that `learner` averages with at its k-th gradient; None: with nobody.

    Drawn at (seed, ASYNC, learner, k) with the weights of the learner's neighbours in row
    `learner` of W as probabilities, by their size; W is that of step k, as DPSGD would have it.
    """
    w = study.mixing_matrix(k)
    if w is None:
        return None
    row = slice(w.indptr[learner], w.indptr[learner + 1])
    others = w.indices[row] != learner
    neighbours, weights = w.indices[row][others], np.abs(w.data[row][others])
    total = weights.sum()
    if not total:
        return None
    draw = generator(study.config.seed, ASYNC, learner, k)
    return int(draw.choice(neighbours, p=weights / total))
