"""The content of a checkpoint: a run between two steps, as named tensors and small facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run after `step` steps, as one process sees it.

    What belongs to a learner is in `rows`, so that any number of processes can take it up again;
    what all processes have in common is in `shared` and `facts`, and kept once.
    """

    step: int
    """Number of steps done."""
    rows: Mapping[str, Tensor]
    """Name -> [local, ...]: one row per hosted learner, of any dtype."""
    shared: Mapping[str, Tensor]
    """Name -> tensor of any shape and dtype, the same on all processes."""
    facts: Mapping[str, Any]
    """JSON values (numbers, NaN and infinities too, strings, None, lists, dicts), the same on all
    processes but for what only process 0 knows."""
