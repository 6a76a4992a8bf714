"""Telephone speech in a fifth of its windows, so that the end of a run is soon judged."""

import numpy as np

from gossip import data
from gossip.data.dataset import Dataset, from_arrays

EVERY = 5
"""Of the training windows, which overlap: the first of so many that follow each other."""


def thinned() -> Dataset:
    """`phone-speech` with every fifth training window; all windows to test on.

    Raises:
        UnavailableError: it is not on this machine; the message says how to get it.
    """
    whole = data.load("phone-speech")
    inputs, labels = (np.asarray(each[::EVERY]) for each in whole.arrays[:2])
    return from_arrays(
        "phone-speech thinned", whole.source, (inputs, labels, *whole.arrays[2:]), whole.scale
    )
