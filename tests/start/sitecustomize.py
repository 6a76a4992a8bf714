"""How Python starts in scripts of the wrapper: torch without its compiler.

A process that makes one of torch's optimizers imports torch's compiler, half of the CPU time of a
short script. Those that tests start compile nothing: there it has nothing to leave alone. Python
finds this file where its folder is in PYTHONPATH.
"""

import sys
from types import ModuleType
from typing import Any


def _same(function: Any = None, *_: Any, **__: Any) -> Any:
    """As `torch.compiler.disable` where nothing is compiled."""
    return (lambda decorated: decorated) if function is None else function


compiler = ModuleType("torch._dynamo")
compiler.disable, compiler.graph_break = _same, lambda: None
sys.modules[compiler.__name__] = compiler
