"""Libraries that are no dependencies of this one, imported when they are asked for."""

from importlib import import_module
from types import ModuleType

from gossip.errors import UserError

NEEDS = {"sklearn": "scikit-learn skorch", "dask": "distributed"}
"""Extra -> the libraries it brings."""


def extra(module: str, name: str) -> ModuleType:
    """The module, of the extra `name`.

    Raises:
        UserError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise UserError(
            f"{library} cannot be imported ({error}): pip install {NEEDS[name]} (the extra "
            f"gossip-sgd[{name}])"
        ) from error
