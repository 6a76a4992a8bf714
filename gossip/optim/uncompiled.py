"""torch's optimizers without torch's compiler, whose import takes 2 s of CPU time per process.

A torch optimizer that is made, and every step that it takes, first tells `torch._dynamo` not to
trace it. Nothing here is traced, so both are called without that, where nobody has imported it yet.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch


@contextmanager
def uncompiled() -> Iterator[None]:
    """In this block `torch.optim.Optimizer`'s constructor does not import torch's compiler."""
    function: Any = getattr(torch.optim.Optimizer.add_param_group, "__wrapped__", None)
    if function is None or "torch._dynamo" in sys.modules:
        yield
        return
    function.__dynamo_disable = function  # what the wrapper would get from the compiler
    try:
        yield
    finally:
        del function.__dynamo_disable


def plain_step(optimizer: torch.optim.Optimizer) -> Callable[[], object]:
    """`optimizer.step` as its class wrote it, without gradients, hooks and a profiler's mark."""
    return torch.no_grad()(partial(inspect.unwrap(type(optimizer).step), optimizer))
