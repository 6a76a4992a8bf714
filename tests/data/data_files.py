"""Hand-made files for the readers."""

import gzip
from pathlib import Path

import numpy as np

from gossip.data.readers import IDX_NAMES


def idx_bytes(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, arrays, zipped=False, dotted=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(IDX_NAMES, arrays, strict=True):
        stem = name.replace("-idx", ".idx") if dotted else name
        data = idx_bytes(array)
        path = folder / (f"{stem}.gz" if zipped else stem)
        path.write_bytes(gzip.compress(data) if zipped else data)
    return folder
