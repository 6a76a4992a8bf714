"""The config as tables of a TOML file, and back."""

from collections.abc import Collection
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec

from gossip.config.tree import Config
from gossip.errors import UserError, suggestion
from gossip.storage.tables import read_toml


def to_tables(config: Config) -> dict[str, Any]:
    """The tree as nested tables for TOML; what is None is left out."""
    return _without_none(asdict(config))


def from_tables(tables: dict[str, Any]) -> Config:
    """The tree with `tables` laid over the defaults; a table [record] is left out.

    Raises:
        UserError: an unknown key, a value of the wrong type or one that cannot be run.
    """
    default = Config()
    known = {f.name for f in fields(Config)}
    tables = {key: value for key, value in tables.items() if key != "record"}
    _refuse_unknown(tables, known, "")
    if isinstance(tables.get("algorithm"), str):
        tables["algorithm"] = [tables["algorithm"]]
    for key, value in tables.items():
        section = getattr(default, key)
        if is_dataclass(section):
            if not isinstance(value, dict):
                raise UserError(f"[{key}] must be a table, got {str(value)[:60]!r}")
            _refuse_unknown(value, {f.name for f in fields(section)}, f"{key}.")
    merged = {
        key: {**value, **tables.get(key, {})} if isinstance(value, dict) else tables.get(key, value)
        for key, value in asdict(default).items()
    }
    try:
        return msgspec.convert(merged, Config, strict=True)
    except msgspec.ValidationError as error:
        # A refusal of our own names the option; else msgspec says where: "... - at `$.data.seed`".
        what, _, where = str(error).partition(" - at `$.")
        ours = isinstance(error.__cause__, UserError)
        raise UserError(what if ours or not where else f"{where.rstrip('`')}: {what}") from error


SAY_SO = "if you trust it, say so on the command line, --{key} {value}"
"""What to do about code in a config file, where the command has the file's options."""


def load(path: Path, flags: Collection[str] = (), advice: str = SAY_SO) -> Config:
    """The tree in a TOML file, laid over the defaults.

    A file may come from anybody, so it cannot make us run code: a `module:function` in it
    counts only if the command line says it too.

    Args:
        path: the file.
        flags: options that the command line gives itself, such as "model".
        advice: what to do about code, with places for {key} and {value}.

    Raises:
        UserError: no such file, not TOML, it names code, or as `from_tables`.
    """
    tables = _read(path)
    for table, key in (
        ("gossip", "topology"),
        ("data", "dataset"),
        ("model", "model"),
        ("model", "loss"),
    ):
        section = tables.get(table)
        value = section.get(key) if isinstance(section, dict) else None
        if isinstance(value, str) and ":" in value and key not in flags:
            raise UserError(
                f"config file {path} names code, {key} = {value!r}: "
                + advice.format(key=key, value=value)
            )
    try:
        return from_tables(tables)
    except UserError as error:
        raise UserError(f"config file {path}: {error}") from error


def refuse_script(path: Path) -> None:
    """Refuse a config that `gossip.record` has left: the harness would train something else by it.

    Raises:
        UserError: it is one, or no such file, or not TOML.
    """
    record = _read(path).get("record")
    if isinstance(record, dict) and record.get("script"):
        raise UserError(
            f"{path} is of a script's run (gossip.record), and does not say what model, data and "
            "loop those are: start the script again, where a model that is loaded as it was goes "
            "on with the folder"
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except OSError as error:
        raise UserError(f"cannot read the config file {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"config file {path} is not TOML: {error}") from error


def _refuse_unknown(tables: dict[str, Any], known: set[str], prefix: str) -> None:
    for key in tables:
        if key not in known:
            raise UserError(
                f"unknown key {prefix + key!r}{suggestion(key, sorted(known))}; "
                f"there are {', '.join(sorted(known))}"
            )


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tables.items()
        if value is not None
    }
