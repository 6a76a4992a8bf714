"""NumPy's files from anywhere: what they announce is compared with what they are before it is read.

Nothing is unpickled, and no memory is asked for that the file, or its reader, has not allowed.
"""

import math
import mmap
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

MOST_MEMBERS = 256
"""An archive with more files than this is refused: each costs memory before it is looked at."""
_CENTRAL_ENTRY = b"PK\x01\x02"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class TooLargeError(ValueError):
    """It is sound as far as it was read, and larger than its reader allows."""


def map_npy(path: Path) -> np.ndarray:
    """The array in a .npy file, memory-mapped read-only.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not one whole array of plain values.
    """
    if not path.is_file():
        raise FileNotFoundError(2, "no such file", str(path))
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = _header(file, path.stat().st_size)
            start = file.tell()
        return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")
    except (OSError, ValueError):
        raise
    # NumPy parses the header as Python text, and raises whatever that meets first.
    except Exception as error:
        raise ValueError(_reason(error)) from error


def read_npz(
    path: Path, largest: int, names: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Arrays of a .npz file by their names, in the file's order.

    Args:
        path: the file.
        largest: bytes that an array may have.
        names: the arrays to read; None for all, `largest` is then for them together.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a sound .npz file of plain values.
        TooLargeError: it unpacks to more than `largest`.
        KeyError: an array is not there.
    """
    try:
        with path.open("rb") as file:
            _refuse_many(file)
            with zipfile.ZipFile(file) as archive:
                return _arrays(archive, largest, names)
    except (OSError, ValueError, KeyError):
        raise
    # Those of zipfile and the decompressors have nothing in common.
    except Exception as error:
        raise ValueError(_reason(error)) from error


def _arrays(
    archive: zipfile.ZipFile, largest: int, names: Collection[str] | None
) -> dict[str, np.ndarray]:
    members = {m.filename.removesuffix(".npy"): m for m in archive.infolist()}
    if names is None:
        if sum(m.file_size for m in members.values()) > largest:
            raise TooLargeError(f"it unpacks to more than {largest} bytes")
        names = list(members)
    arrays = {}
    for name in names:
        member = members[name]
        if member.file_size > largest:
            raise TooLargeError(f"{name} unpacks to more than {largest} bytes")
        # Never more than the size that the archive's directory announces.
        with archive.open(member) as file:
            arrays[name] = _array(file, member.file_size)
    return arrays


def _array(file: IO[bytes], size: int) -> np.ndarray:
    shape, fortran, dtype = _header(file, size)
    data = file.read(size)
    count = math.prod(shape)
    array = np.frombuffer(data, dtype, count) if count else np.empty(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether it is in Fortran's order, and type of an array in a file of `size` bytes."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"it has version {version} of the .npy format")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"it holds Python objects or nothing ({dtype}), which is not read: pickle")
    if any(k < 0 for k in shape) or math.prod(k or 1 for k in shape) > 2**62 // dtype.itemsize:
        raise ValueError(f"it has the impossible shape {shape}")
    announced = file.tell() + math.prod(shape) * dtype.itemsize
    if announced > size:
        raise ValueError(f"it has {size} bytes where its header announces {announced}")
    return shape, fortran, dtype


def _refuse_many(file: IO[bytes]) -> None:
    """Refuse an archive of very many members, whatever number it announces."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        position = -1
        for _ in range(MOST_MEMBERS + 1):
            position = data.find(_CENTRAL_ENTRY, position + 1)
            if position < 0:
                return
    raise TooLargeError(f"it has more than {MOST_MEMBERS} members")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
