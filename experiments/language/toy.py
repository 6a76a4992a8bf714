"""Windows of the alphabet for the smoke test, which needs no network; its numbers mean nothing."""

import numpy as np

from gossip.data.dataset import Arrays

LETTERS, STEPS = 26, 16


def letters() -> Arrays:
    """Windows that begin at each letter, many to train on and few to test on."""
    first = np.arange(4 * LETTERS)[:, None]
    text = ((first + np.arange(STEPS + 1)) % LETTERS).astype(np.int32)
    inputs, labels = text[:, :-1], text[:, 1:].astype(np.int64)
    return inputs, labels, inputs[:LETTERS], labels[:LETTERS]
