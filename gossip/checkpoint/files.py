"""Atomic files, either whole and on disk or absent, and tensors in such files."""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import torch
from torch import Tensor

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""What can be kept, by its name in the safetensors format."""

MAX_HEADER_BYTES = 2**22
"""Of the names, dtypes and shapes before the tensors of a file."""

CHUNK_BYTES = 2**22


class NotKeptError(Exception):
    """Why a checkpoint could not be written, in a few words."""


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Size and hash by which a file is recognised."""

    bytes: int
    sha256: str


def write(path: Path, chunks: Iterable[bytes | memoryview]) -> Content:
    """Write a file under another name, wait until it is on disk, and give it its own.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    sha256, size = hashlib.sha256(), 0
    try:
        with unfinished.open("wb") as file:
            for chunk in chunks:
                sha256.update(chunk)
                size += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        remove(unfinished)
        raise
    return Content(size, sha256.hexdigest())


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> Content:
    """Write a safetensors file, without a copy in memory, and without the GIL for most of it.

    Args:
        path: of the file.
        tensors: contiguous, on the CPU.

    Raises:
        OSError: it cannot be written.
        NotKeptError: the format has no place for such tensors.
    """
    # The format wants no gaps; larger elements first, each is at a multiple of its size.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    return write(path, _chunks(_header(ordered), [tensor for _, tensor in ordered]))


def remove(path: Path) -> None:
    """Remove a file if possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def _header(tensors: list[tuple[str, Tensor]]) -> bytes:
    entries, start = {}, 0
    for name, tensor in tensors:
        if tensor.dtype not in DTYPES:
            raise NotKeptError(f"{name!r} is of dtype {tensor.dtype}")
        end = start + tensor.nbytes
        entries[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise NotKeptError(f"it has {len(tensors)} tensors")
    return struct.pack("<Q", len(text)) + text


def _chunks(header: bytes, tensors: list[Tensor]) -> Iterable[bytes | memoryview]:
    yield header
    for tensor in tensors:
        data = tensor.reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]
