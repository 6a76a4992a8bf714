"""Checkpoints changed on purpose, their hashes corrected: only their meaning is wrong."""

import hashlib
import json
from pathlib import Path
from typing import Any


def manifest_of(path: Path) -> dict[str, Any]:
    """The manifest's table."""
    return json.loads((path / "manifest.json").read_bytes())


def sign(path: Path, table: Any) -> None:
    """Write a manifest with the hash that belongs to it."""
    if isinstance(table, dict):
        table = {name: value for name, value in table.items() if name != "sha256"}
        table["sha256"] = hashlib.sha256(_json(table)).hexdigest()
    (path / "manifest.json").write_bytes(_json(table) + b"\n")


def forge(path: Path, file: str, data: bytes) -> None:
    """Write a file, and what the manifest says of it."""
    (path / file).write_bytes(data)
    table = manifest_of(path)
    for entry in (table["shared"], *table["blocks"]):
        if entry.get("file", "shared.safetensors") == file:
            entry |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    sign(path, table)


def _json(table: Any) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()
