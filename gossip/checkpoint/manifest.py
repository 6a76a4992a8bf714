"""The manifest of a checkpoint: the run it belongs to, and size and hash of its other files."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from gossip.checkpoint import layout
from gossip.checkpoint.files import Content, NotKeptError
from gossip.errors import UserError

FORMAT = 1
MAX_BYTES = 2**22
"""A manifest larger than this is neither written nor read."""

_SHA256 = re.compile("[0-9a-f]{64}")


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file with the rows of some learners."""

    first: int
    last: int
    """The last learner itself, not the one after it."""
    file: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint without its tensors."""

    format: Literal[1]
    step: int
    n: int
    blocks: list[Block]
    """Files of rows, by process."""
    shared: Content
    facts: dict[str, Any]


def render(manifest: Manifest) -> bytes:
    """The file's content, which has its own sha256 in it.

    Raises:
        NotKeptError: it is too large, or not one that `parse` would take.
    """
    data = _render(msgspec.to_builtins(manifest))
    if len(data) > MAX_BYTES:
        raise NotKeptError(f"its facts have {len(data)} bytes")
    if mistake := _mistake(manifest):
        raise NotKeptError(mistake)
    return data


def parse(path: Path, data: bytes) -> Manifest:
    """The manifest that `render` made `data` of.

    Args:
        path: where it was found, for the message.
        data: at most MAX_BYTES.

    Raises:
        UserError: it was not made so: a single other bit is enough.
    """
    try:
        content = dict(json.loads(data))
        content.pop("sha256", None)
        undamaged = data == _render(content)  # there is but one text for each content
        manifest = msgspec.convert(content, Manifest) if undamaged else None
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise UserError(f"{path} is no manifest of a checkpoint ({_short(error)})") from error
    if manifest is None:
        raise UserError(f"{path} is damaged: its sha256 is another")
    if mistake := _mistake(manifest):
        raise UserError(f"{path}: {mistake}")
    return manifest


def _render(content: dict[str, Any]) -> bytes:
    digest = hashlib.sha256(_json(content)).hexdigest()
    return _json({**content, "sha256": digest}) + b"\n"


def _json(content: Any) -> bytes:
    """One text for each content; numbers that are not finite are NaN and Infinity in it."""
    return json.dumps(content, separators=(",", ":")).encode()


def _mistake(manifest: Manifest) -> str | None:
    """Why it cannot be that of a checkpoint."""
    if manifest.step < 0 or manifest.n < 1:
        return f"step {manifest.step} of {manifest.n} learners"
    following = 0
    for process, block in enumerate(manifest.blocks):
        if block.file != layout.block(process):
            return f"block {process} is to be in a file {block.file[:80]!r}"
        if block.first != following or block.last < block.first:
            return f"{block.file} is of learners {block.first} to {block.last}, not {following}..."
        following = block.last + 1
    if following != manifest.n:
        return f"its blocks are of {following} learners, not of {manifest.n}"
    for content in (manifest.shared, *manifest.blocks):
        if content.bytes < 0 or not _SHA256.fullmatch(content.sha256):
            return f"{content.bytes} bytes with sha256 {content.sha256[:80]!r}"
    return None


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
