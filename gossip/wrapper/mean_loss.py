"""Whether a user's loss is the mean over a batch, as everything that is measured by it takes it."""

import warnings
from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from gossip.wrapper.probing import ProbeBatches, Replay, samples_in
from gossip.wrapper.watching import as_one_row

NEAR = 0.1
"""By how much of the halves' sum the whole may miss it, and each half has to be of it at least."""


def warn_of_a_sum(replay: Replay, probe: ProbeBatches, process: int) -> None:
    """Say so where a batch of the probe has the sum of its halves' losses, not their mean.

    A batch of another kind than tensors in sequences or mappings is taken as it is.

    Args:
        replay: of the loss.
        probe: of the learner here; each process tries its own, as a pass may be collective.
        process: the first one says it.
    """
    row = as_one_row(replay.weights.rows())[0]
    try:
        # Two more shapes are nothing that a compiled module should adapt to.
        with replay.standing_at(row), torch.no_grad(), torch.compiler.set_stance("force_eager"):
            batch = next(iter(probe.batches))
            half = samples_in(batch) // 2
            cuts = (slice(2 * half), slice(half), slice(half, 2 * half))
            whole, *halves = [float(replay.loss(_cut(batch, cut))) for cut in cuts]
    # What cannot be cut cannot be told; what is wrong with a batch is said when it is measured.
    except Exception:
        return
    if process == 0 and half and isfinite(whole) and is_sum(whole, halves):
        warnings.warn(
            f"record(loss=): of a batch of {2 * half} samples the loss is {whole:.3g}, the sum of "
            "what its halves have, so alpha_e and Delta would be those of another loss than the "
            "mean over samples: give the mean loss, as reduction='mean'",
            stacklevel=2,
        )


def is_sum(whole: float, halves: list[float]) -> bool:
    """Whether the loss of a batch is the sum of its halves', both of which have some."""
    total = sum(halves)
    return abs(whole - total) < NEAR * abs(total) and all(part / total > NEAR for part in halves)


def _cut(batch: Any, to: slice) -> Any:
    """Some samples of a batch: of each tensor that is as long as the first one."""
    count = samples_in(batch)

    def cut(each: Any) -> Any:
        if isinstance(each, Tensor):
            return each[to] if each.ndim and len(each) == count else each
        if isinstance(each, Mapping):
            return {name: cut(value) for name, value in each.items()}
        if isinstance(each, list | tuple):
            inner = [cut(value) for value in each]
            return type(each)(*inner) if hasattr(each, "_fields") else type(each)(inner)
        return each

    return cut(batch)
