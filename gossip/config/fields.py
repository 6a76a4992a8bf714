"""Metavars and range checks that the sections of the config share."""

import math
from typing import Any

from tyro.conf import arg

from gossip.errors import UserError


def names(*tables: Any, own: str = "") -> Any:
    """How --help shows a choice: the names in the tables, and the user's own."""
    return arg(metavar="|".join([*(name for table in tables for name in table), own]).rstrip("|"))


def at_least(minimum: int, **values: int) -> None:
    """Raise UserError for a value below `minimum`."""
    for name, value in values.items():
        if value < minimum:
            raise UserError(f"{name}={value}: it must be at least {minimum}")


def not_negative(**values: float) -> None:
    """Raise UserError for a value that is negative or not finite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise UserError(f"{name}={value}: it must be a number from 0 up")
