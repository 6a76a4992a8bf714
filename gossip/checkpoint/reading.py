"""Reading a checkpoint back; nothing in its files is believed before it is verified."""

import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gossip.checkpoint import layout, manifest
from gossip.checkpoint.files import CHUNK_BYTES, DTYPES, MAX_HEADER_BYTES, Content
from gossip.checkpoint.manifest import Block, Manifest
from gossip.checkpoint.snapshot import Snapshot
from gossip.errors import UserError
from gossip.storage import names

Layout = dict[str, tuple[torch.dtype, tuple[int, ...]]]
"""Name -> dtype and shape of what is kept for each learner."""


def read(path: Path, hosted: range) -> Snapshot:
    """The checkpoint in `path`, with the rows of some learners; others' files are not opened.

    Args:
        path: its folder, as `newest` gives it.
        hosted: learners to read, whatever number of processes wrote them.

    Raises:
        UserError: it is damaged, or has no such learners.
    """
    found = _manifest(path)
    if hosted.step != 1 or hosted.start < 0 or hosted.stop > found.n:
        raise UserError(f"{path} has learners 0 to {found.n - 1}, not {hosted}")
    blocks = [b for b in found.blocks if b.first < hosted.stop and hosted.start <= b.last]
    kept = _verify(path, blocks)
    shared = path / layout.SHARED
    _verify_file(shared, found.shared)
    rows = _empty(path, kept, len(hosted))
    for block in blocks:
        _fill(rows, path, block, hosted)
    with _tensors(shared) as tensors:
        together = {name: tensor.clone() for name, tensor in tensors.items()}
    return Snapshot(step=found.step, rows=rows, shared=together, facts=found.facts)


def verify(path: Path) -> None:
    """Read and verify all of the checkpoint in `path`.

    Raises:
        UserError: it is damaged; the message names the file and the reason.
    """
    found = _manifest(path)
    _verify(path, found.blocks)
    _verify_file(path / layout.SHARED, found.shared)


def facts(path: Path) -> dict[str, Any]:
    """The facts of the checkpoint in `path`, without a look at its tensors.

    Raises:
        UserError: its manifest is damaged.
    """
    return _manifest(path).facts


def learners(path: Path) -> int:
    """How many learners the checkpoint in `path` is of.

    Raises:
        UserError: its manifest is damaged.
    """
    return _manifest(path).n


def _manifest(path: Path) -> Manifest:
    file_path = path / names.MANIFEST
    with _open(file_path) as (file, size):
        if size > manifest.MAX_BYTES:
            raise UserError(f"{file_path} has {size} bytes: at most {manifest.MAX_BYTES} are read")
        found = manifest.parse(file_path, file.read(size + 1))
    if path.name != names.step_folder(found.step):
        raise UserError(f"{file_path} is of step {found.step}, not of {path.name}")
    return found


def _verify(path: Path, blocks: list[Block]) -> Layout:
    """What these blocks, which must agree, keep for each learner."""
    kept: Layout | None = None
    for block in blocks:
        file, learners = path / block.file, block.last - block.first + 1
        found: Layout = {}
        for name, (dtype, shape) in _verify_file(file, block).items():
            if shape[:1] != (learners,):
                raise UserError(f"{file}: {name!r} is {list(shape)}, for {learners} learners")
            found[name] = dtype, shape[1:]
        if kept is not None and found != kept:
            raise UserError(f"{file} keeps other tensors than {blocks[0].file}")
        kept = found
    return kept or {}


def _verify_file(path: Path, content: Content | Block) -> Layout:
    """Dtypes and shapes in a file which is the one that was written."""
    with _open(path) as (file, size):
        if size != content.bytes:
            raise UserError(f"{path} has {size} bytes, not {content.bytes}: it is damaged")
        header = int.from_bytes(file.read(8), "little")
        if header > min(size, MAX_HEADER_BYTES):
            raise UserError(f"{path} is damaged: it has a header of {header} bytes")
        file.seek(0)
        sha256 = hashlib.sha256()
        while chunk := file.read(CHUNK_BYTES):
            sha256.update(chunk)
    if sha256.hexdigest() != content.sha256:
        raise UserError(f"{path} is damaged: its sha256 is another")
    with _tensors(path) as tensors:
        return {name: (t.dtype, tuple(t.shape)) for name, t in tensors.items()}


def _empty(path: Path, kept: Layout, learners: int) -> dict[str, Tensor]:
    """Room for the rows of some learners: no more than there is in the verified files."""
    try:
        return {
            name: torch.empty((learners, *shape), dtype=dtype)
            for name, (dtype, shape) in kept.items()
        }
    except (RuntimeError, TypeError) as error:
        raise UserError(f"{path}: there is no room for its tensors ({error})") from error


def _fill(rows: dict[str, Tensor], path: Path, block: Block, hosted: range) -> None:
    """Copy the block's rows of the hosted learners."""
    first, end = max(block.first, hosted.start), min(block.last + 1, hosted.stop)
    with _tensors(path / block.file) as tensors:
        for name, target in rows.items():
            source = tensors[name][first - block.first : end - block.first]
            target[first - hosted.start : end - hosted.start] = source


@contextmanager
def _tensors(path: Path) -> Generator[dict[str, Tensor]]:
    """The tensors in a verified file, mapped: a page is read when it is used."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            for name, tensor in tensors.items():
                if tensor.dtype not in DTYPES:
                    raise UserError(f"{path}: {name!r} is of dtype {tensor.dtype}")
            yield tensors
    # The file is as it was written, but not necessarily by us.
    except (SafetensorError, OSError, TypeError, ValueError, RuntimeError, KeyError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is no safetensors file ({error})") from error


@contextmanager
def _open(path: Path) -> Generator[tuple[BinaryIO, int]]:
    """A regular file and its size; a link or a pipe is not opened."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            if path.is_symlink() or not stat.S_ISREG(status.st_mode):
                raise UserError(f"{path} is not a regular file")
            yield file, status.st_size
    except OSError as error:
        what = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise UserError(f"cannot read {path}: {what}") from error
