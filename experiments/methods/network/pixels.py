"""Digits pixel after pixel, as tokens: what the smoke test has in the place of text."""

import numpy as np

from gossip.data.dataset import Arrays, hold_out_every_fifth
from gossip.data.sources import digits


def pixels() -> Arrays:
    """The first 63 pixels of each image, and the pixels one further on: ids 0 ... 16."""
    images, labels = digits()
    train, _, test, _ = hold_out_every_fifth(images, labels.astype(int))
    first, second = (each.reshape(len(each), -1) for each in (train, test))
    return (*_shifted(first), *_shifted(second))


def _shifted(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return ids[:, :-1].astype(np.int32), ids[:, 1:].astype(np.int64)
