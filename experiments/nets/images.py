"""CIFAR-10 at half the resolution, which costs a convolutional net a fourth, and half as many."""

import numpy as np
from numpy.typing import NDArray

from gossip import data
from gossip.data.dataset import Arrays

TRAIN, TEST = 25_000, 5_000
"""Images, the first ones: they are in random order."""


def halved() -> Arrays:
    """The first images of CIFAR-10, [N, 3, 16, 16] uint8: each pixel the mean of 2 x 2.

    Raises:
        UnavailableError: CIFAR-10 is not on this machine; the message says how to get it.
    """
    train, train_labels, test, test_labels = data.load("cifar10").arrays
    return pooled(train[:TRAIN]), train_labels[:TRAIN], pooled(test[:TEST]), test_labels[:TEST]


def pooled(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[N, C, 2 H, 2 W] -> [N, C, H, W], means of 2 x 2 pixels, rounded down."""
    count, channels, height, width = images.shape
    blocks = images.reshape(count, channels, height // 2, 2, width // 2, 2)
    return blocks.mean(axis=(3, 5), dtype=np.float32).astype(np.uint8)
