"""Train one model on many learners without a global all-reduce, and see why it works."""

import importlib
from typing import TYPE_CHECKING, Any

from gossip.comm.start import prepare_environment

if TYPE_CHECKING:
    from gossip.wrapper import Averager, Gossip

__all__ = ["Averager", "Gossip"]
__version__ = "0.1.0"

# Threads per process and MPI's yielding are read when torch and MPI start, so they are decided
# here, before either is imported; nothing is set where one process was started alone.
prepare_environment()


def __getattr__(name: str) -> Any:
    """The wrappers, imported when they are asked for: the rest does without torch."""
    if name in __all__:
        return getattr(importlib.import_module("gossip.wrapper"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
