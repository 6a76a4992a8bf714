"""How Python starts in programs of the tests that are not about their start: with half of torch.

Python finds this file where its folder is in PYTHONPATH. Three things of a short program, a third
of its CPU time, half with an optimizer of torch's, are of no use to those that tests start:

- torch's compiler, which is imported with the first of torch's optimizers. Here nothing is
  compiled, and it has nothing to leave alone.
- `torch._meta_registrations`: shapes of what has no data, for operators that torch has in Python.
  `torch.Generator` and tensors that are split among processes need it: programs that have them
  fail at once, and start with all of torch.
- Garbage of what is imported; see `garbage.py` beside this file.
"""

import sys
from types import ModuleType, SimpleNamespace

import forking
import garbage


def _same(function=None, *_, **__):
    """As `torch.compiler.disable` where nothing is compiled."""
    return (lambda decorated: decorated) if function is None else function


compiler = ModuleType("torch._dynamo")
compiler.disable, compiler.graph_break = _same, lambda: None
compiler.trace_rules = SimpleNamespace(clear_lru_cache=lambda: None)  # at torch.distributed's start
for module in (compiler, ModuleType("torch._meta_registrations")):
    sys.modules[module.__name__] = module
assert forking
assert garbage
