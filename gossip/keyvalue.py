"""Options given as key=value text, parsed and checked against those that are accepted."""

from collections.abc import Callable, Iterable
from typing import Any

from gossip.errors import UserError
from topologies.options import checked_options
from topologies.topology import TopologyError


def parse_options(options: Iterable[str], kind: str) -> dict[str, str]:
    """key=value strings as a dictionary.

    Raises:
        UserError: one without "=", or a key given twice.
    """
    parsed: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise UserError(f"{kind} option {option!r}: write it as key=value")
        key = key.replace("-", "_")
        if key in parsed:
            raise UserError(f"{kind} option {key!r} is given twice")
        parsed[key] = value
    return parsed


def typed_options(name: str, make: Callable[..., Any], given: dict[str, str]) -> dict[str, Any]:
    """The options of `make`, beside its first argument, as its annotations want them.

    Raises:
        UserError: an option that `make` does not have, or a value that is no such thing.
    """
    try:
        return checked_options(name, make, given)
    except TopologyError as error:
        raise UserError(str(error)) from error
