"""Tables of names and values from TOML or JSON that anybody may have written."""

import codecs
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_BYTES = 2**24
"""A text larger than this was not written by gossip, and is not read."""
MOST_TOML_BYTES = 2**20
"""The same for a config, of which the parser reads a megabyte a second."""
DEEPEST = 32
"""Levels of tables and lists in each other; a config has two."""
MOST_DOTS = 2**22
"""Sum of the squares of the dots in each line: what keys a.a.a... cost the parser in memory."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; no more of it is read than one of ours may have.

    Raises:
        OSError: it cannot be read.
        ValueError: as `from_toml`.
    """
    with path.open("rb") as file:
        return from_toml(file.read(MOST_TOML_BYTES + 1))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; no more of it is read than one of ours may have.

    Raises:
        OSError: it cannot be read.
        ValueError: as `from_json`.
    """
    with path.open("rb") as file:
        return from_json(file.read(MOST_BYTES + 1))


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one: {"data": {"seed": 1}} is {"data.seed": 1}."""
    result = {}
    for key, value in tables.items():
        if isinstance(value, Mapping):
            result.update(flat(value, f"{prefix}{key}."))
        else:
            result[prefix + key] = value
    return result


def from_toml(data: bytes) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        ValueError: it is not TOML in UTF-8, or larger or deeper than any of ours.
    """
    text = _text(data, MOST_TOML_BYTES)
    if sum(line.count(".") ** 2 for line in text.splitlines()) > MOST_DOTS:
        raise ValueError("it has too many dots in a line for its keys to be ours")
    return _bounded(text, tomllib.loads)


def from_json(data: bytes) -> dict[str, Any]:
    """The object of a JSON text.

    Raises:
        ValueError: it is not a JSON object in UTF-8, or larger or deeper than any of ours.
    """
    text = _text(data, MOST_BYTES)
    if not text.lstrip().startswith("{"):
        raise ValueError("it is not a table of names and values")
    return _bounded(text, json.loads)


def _text(data: bytes, most: int) -> str:
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    # As topologies.texts, whose package the launcher would be slow to import.
    if b"\0" in data or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("it is UTF-16 or has NUL bytes, where UTF-8 is read")
    return data.decode("utf-8-sig")


def _bounded(text: str, parse: Any) -> dict[str, Any]:
    try:
        tables = parse(text)
    except RecursionError:
        raise _too_deep() from None
    level: list[Any] = [tables]
    for _ in range(DEEPEST):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            return tables
    raise _too_deep()


def _parts(value: Any) -> list[Any]:
    """The tables and lists that a value holds itself."""
    held = value.values() if isinstance(value, dict) else value
    return [part for part in held if isinstance(part, dict | list)]


def _too_deep() -> ValueError:
    return ValueError(f"its tables and lists are more than {DEEPEST} deep in each other")
