"""Options of a run by their flat names, as `--lr` and not as [rate] lr, and changed as text."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import msgspec

from gossip.config import Config, to_tables
from gossip.errors import UserError, lookup
from gossip.storage.tables import flat

SHARED = (
    *("learners", "seed", "steps", "epochs", "backend"),
    *("batch_size", "dataset", "data_dir", "validation", "replacement"),
)
"""What is the same for all methods of a comparison, so that they see equally many samples."""


def _places() -> dict[str, tuple[str | None, Any]]:
    """Name of an option -> its table, None for those above the tables, and its type."""
    places: dict[str, tuple[str | None, Any]] = {}
    default = Config()
    for top in fields(Config):
        section = getattr(default, top.name)
        if is_dataclass(section):
            places |= {f.name: (top.name, f.type) for f in fields(section)}
        else:
            places[top.name] = (None, top.type)
    return places


PLACES = _places()


def free(key: str, kind: str) -> str:
    """`key` itself, if it is an option that may differ between methods.

    Raises:
        UserError: there is no such option, or it is one of `SHARED`.
    """
    lookup(PLACES, key, kind)
    if key in SHARED:
        raise UserError(f"{kind} {key!r} must be the same for all methods: set it for them all")
    return key


def changed(config: Config, options: Mapping[str, str]) -> Config:
    """`config` with options set from text; lists are separated by blanks, as in "50 50".

    Raises:
        UserError: an unknown option, or a value that cannot be run.
    """
    for key, text in options.items():
        _, kind = lookup(PLACES, key, "option")
        tables = to_tables(config)
        _put(tables, key, text.split() if "tuple[" in str(kind) else text)
        try:
            config = msgspec.convert(tables, Config, strict=False)
        except msgspec.ValidationError as error:
            reason = str(error).split(" - at `$")[0]
            raise UserError(f"{dashed(key)}={text}: {reason}") from error
    return config


def reset(config: Config, keys: Collection[str]) -> Config:
    """`config` with some options at their defaults."""
    tables, default = to_tables(config), flat(asdict(Config()))
    for key in keys:
        section = PLACES[key][0]
        _put(tables, key, default[key if section is None else f"{section}.{key}"])
    return msgspec.convert(tables, Config)


def dashed(key: str) -> str:
    """The option as the command line writes it."""
    return key.replace("_", "-")


def _put(tables: dict[str, Any], key: str, value: object) -> None:
    section = PLACES[key][0]
    (tables if section is None else tables[section])[key] = value
