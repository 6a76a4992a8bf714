"""A fault of oneDNN, which computes torch's convolutions on a CPU: writing past its memory.

The weights' gradient of a 1x1 convolution with a stride, its channels innermost, first gathers the
pixels that the stride keeps. The room for them is of as many channels as there are, and the places
in it are apart by a vector of 8 (AVX2) or 16 (AVX-512): with fewer channels the last of them lie
beyond it. The process aborts, hangs, or computes something else.

Reference: https://github.com/uxlfoundation/oneDNN/issues/6035, open in oneDNN 3.12 (torch 2.13).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gossip.task.numerics import Numerics

VECTOR = 16
"""Channels from which on no oneDNN overruns: an AVX-512 register of float32."""
GIVEN = ("input", "weight")
"""What torch calls the first arguments of a convolution."""
FAULT = (
    "with the channels last, a CPU's gradient of a 1x1 convolution with a stride and fewer than "
    f"{VECTOR} channels writes past its memory (oneDNN), and this model has one"
)


class OverrunDetector(TorchFunctionMode):
    """In this block, looks for the convolutions that would overrun with their channels innermost.

    By what is computed, whatever module or function asks for it. float64 is not oneDNN's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        """Whether there was one."""
        self.overruns = False
        """Whether there was one whose channels were innermost."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute, and look at what a convolution was given and at what it made of it."""
        out = func(*args, **(kwargs or {}))
        if func in (torch.conv2d, torch.conv_transpose2d):
            inputs, weight = (args[i] if i < len(args) else kwargs[k] for i, k in enumerate(GIVEN))
            # A transposed convolution's gradient is that of the one from its outputs to its inputs.
            ends = (inputs, out) if func is torch.conv2d else (out, inputs)
            if _cramped(*ends, weight):
                self.found = True
                # One pixel fits in any order.
                self.overruns |= out.stride(-3) == 1 and out.shape[-2:].numel() > 1
        return out


def _cramped(more: Tensor, less: Tensor, weight: Tensor) -> bool:
    """Whether a convolution from `more` pixels to `less` is of the kind that overruns.

    Args:
        more: [..., C, H, W].
        less: [..., C', H', W'].
        weight: [C', C / groups, h, w].
    """
    return (
        more.device.type == "cpu"
        and more.dtype != torch.float64
        and weight.shape[2:].numel() == 1
        and more.shape[-2:].numel() > less.shape[-2:].numel()
        and more.shape[-3] == weight.shape[1] < VECTOR
    )


def spared(numerics: Numerics) -> tuple[Numerics, tuple[str, ...]]:
    """`numerics` without what would let convolutions overrun, and notes on what is off."""
    notes = []
    if numerics.channels_last:
        notes.append(f"channels-last is off: {FAULT}")
    if numerics.compile:
        notes.append(f"compile is off: torch.compile puts the channels last, and {FAULT}")
    return replace(numerics, channels_last=False, compile=False), tuple(notes)
