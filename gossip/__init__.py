"""Train one model on many learners without a global all-reduce, and see why it works."""

import importlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossip.comm.startup import asked
from gossip.comm.startup.environment import prepare_environment, speaks
from gossip.comm.startup.inherited import open_standard_files

if TYPE_CHECKING:
    from gossip.task.device import place
    from gossip.wrapper import Averager, Gossip, leave
    from gossip.wrapper.recording import record

__all__ = ["Averager", "Gossip", "leave", "place", "record"]
__version__ = "0.1.0"

# Threads per process and MPI's yielding are read when torch and MPI start, so they are decided
# here, before either is imported; nothing is set where one process was started alone.
prepare_environment()
open_standard_files()
asked.expect()

# A file that the library of the same name on the package index has, and we never.
if Path(__file__).with_name("hooks.py").exists() and speaks():
    from gossip_sgd import way_out

    warnings.warn(
        "another library named gossip is installed in the same folder as gossip-sgd, and each "
        f"overwrites the other's gossip/__init__.py: {way_out('gossip')}",
        stacklevel=2,
    )


_HOMES = {
    "Averager": "gossip.wrapper",
    "Gossip": "gossip.wrapper",
    "leave": "gossip.wrapper",
    "place": "gossip.task.device",
    "record": "gossip.wrapper.recording",
}


def __getattr__(name: str) -> Any:
    """The public names, imported when they are asked for: the rest does without torch."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
