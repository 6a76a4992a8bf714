"""Check that all processes send rows of one shape and dtype, before a message is cut short."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gossip.errors import UserError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Dtypes of rows that have weighted sums, and that every transport carries."""


SENT = "sent"
"""The verb of payloads, which are bytes."""


class RowKind(NamedTuple):
    """What rows are like, and what is done with them."""

    verb: str
    shape: torch.Size
    dtype: torch.dtype


def check_alike(kind: RowKind, share: Callable[[Any], list[Any]]) -> None:
    """Check that all processes have rows of this kind, and that there are sums of them. Collective.

    To be called when a process meets a kind for the first time; that one brings a new kind later
    than the others is not found by this.

    Args:
        kind: of this process's rows.
        share: gives every process's value.

    Raises:
        UserError: the same on all processes.
    """
    allowed = [_name(dtype) for dtype in ((torch.uint8,) if kind.verb == SENT else FLOATS)]
    kinds = [(dtype, tuple(shape)) for dtype, shape in share([_name(kind.dtype), [*kind.shape]])]
    for process, (dtype, shape) in enumerate(kinds):
        if dtype not in allowed:
            raise UserError(
                f"rows of {dtype} cannot be {kind.verb} (process {process}): "
                f"the dtypes for that are {', '.join(allowed)}"
            )
        if (dtype, shape) != kinds[0]:
            raise UserError(
                f"rows that are {kind.verb} must be alike on all processes, but process 0 has "
                f"{kinds[0][0]} {kinds[0][1]} and process {process} has {dtype} {shape}: "
                "build the same model, in the same dtype, on all of them"
            )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
