"""UserError: a mistake of the user in one sentence, with the value given and the way out."""

import difflib
import importlib
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

MOST_SAID = 300
"""Letters of another's message that are passed on."""
_NOT_THE_USERS = (
    Path(__file__).parent,
    *(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")),
)
"""Folders of this package, of installed ones and of Python's own."""


class UserError(ValueError):
    """A user's mistake: the commands print it once, without a traceback, and exit with code 2."""


def said(error: BaseException, letters: int = MOST_SAID) -> str:
    """An exception of the user's own code in one line, and where in that code it was raised."""
    message = " ".join((error.args[0] if _is_text(error) else str(error)).split())
    lines = message if len(message) <= letters else f"{message[:letters]}..."
    text = f"{type(error).__name__}: {lines}" if lines else type(error).__name__
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.exists() and not any(path.is_relative_to(folder) for folder in _NOT_THE_USERS):
            return f"{text} ({path.name}, line {frame.lineno})"
    return text


def _is_text(error: BaseException) -> bool:
    """Whether it is a KeyError with a message, which its own str() would put in quotes."""
    return isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str)


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """The entry `name` of `table`.

    Raises:
        UserError: there is none; the message suggests the nearest name and lists all.
    """
    return table[one_of(table, name, kind)]


def one_of(names: Collection[str], name: str, kind: str) -> str:
    """`name` itself, if it is one of `names`.

    Raises:
        UserError: it is not; the message suggests the nearest name and lists all.
    """
    if isinstance(name, str) and name in names:
        return name
    raise UserError(
        f"unknown {kind} {name!r}{suggestion(name, names)}; there are {', '.join(names)}"
    )


def suggestion(name: str, names: Collection[str]) -> str:
    """': did you mean X?' if `name` looks like one of `names`, else ''."""
    near = difflib.get_close_matches(str(name), list(names), n=1)
    return f": did you mean {near[0]}?" if near else ""


def load_object(spec: str, kind: str) -> Callable[..., Any]:
    """The function or class behind `module:name`, looked for in the current folder too.

    Only ever called with what stands on the command line or in the user's own Python: a config
    file is untrusted and may not name code.

    Raises:
        UserError: the module cannot be imported, or has nothing callable of that name.
    """
    module_name, _, name = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    # An import runs the user's module, which may raise anything, or be a script.
    except (Exception, SystemExit) as error:
        reason = said(error)
        if isinstance(error, ModuleNotFoundError):
            reason += f"; looked in {here} and on PYTHONPATH"
        raise UserError(f"{kind} {spec!r}: cannot import {module_name!r} ({reason})") from error
    if not hasattr(module, name):
        names = [n for n, value in vars(module).items() if callable(value)]
        raise UserError(
            f"{kind} {spec!r}: module {module_name!r} has no {name!r}{suggestion(name, names)}"
        )
    found = getattr(module, name)
    if not callable(found):
        raise UserError(
            f"{kind} {spec!r}: {name!r} is not callable ({type(found).__name__}): give a function"
        )
    return found
