"""Options of a builder, from Python values or from the text of a command line."""

import difflib
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from topologies.topology import TopologyError


def suggestion(name: str, names: Iterable[str]) -> str:
    """' (did you mean X?)' if `name` looks like one of `names`, else ''."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def option_names(builder: Callable[..., Any]) -> list[str]:
    """What a builder takes beside n (or beside its first argument)."""
    parameters = list(inspect.signature(builder).parameters.values())[1:]
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]


def checked_options(
    name: str, builder: Callable[..., Any], given: dict[str, Any]
) -> dict[str, Any]:
    """The options with their text converted by the builder's annotations.

    A builder with **options passes on what it does not know itself.

    Raises:
        TopologyError: an option the builder does not have, or a value that is no such thing.
    """
    hints = typing.get_type_hints(builder)
    known = option_names(builder)
    passes_on = len(known) < len(inspect.signature(builder).parameters) - 1
    result = {}
    for key, value in given.items():
        if key in known:
            result[key] = _converted(name, key, value, hints.get(key, Any))
        elif passes_on:
            result[key] = value
        else:
            allowed = f"use {', '.join(known)}" if known else "it has none"
            if key == "weights":
                allowed = "it has weights of its own"
            hint = suggestion(key, known)
            raise TopologyError(f"{name} has no option {key!r}{hint}: {allowed}")
    return result


def _converted(name: str, key: str, value: Any, hint: Any) -> Any:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    if value is None and types.NoneType in kinds:
        return None
    for kind in (int, float, str):
        if kind not in kinds:
            continue
        try:
            result = _as(kind, value)
        except (TypeError, ValueError):
            wanted = {int: "a whole number", float: "a number", str: "text"}[kind]
            raise TopologyError(f"{name}: {key} must be {wanted}, got {value!r}") from None
        if key == "seed" and result < 0:
            raise TopologyError(f"{name}: seed must be 0 or more, got {value}")
        return result
    return value


def _as(kind: type, value: Any) -> Any:
    """`value` as int, float or str, without losing anything of it."""
    if kind is str:
        if not isinstance(value, str):
            raise TypeError
        return value
    if isinstance(value, bool):
        raise TypeError
    result = kind(value)
    if not isinstance(value, str) and result != value:
        raise ValueError
    return result
