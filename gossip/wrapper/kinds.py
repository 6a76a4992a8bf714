"""Kinds of tensors that have averages, and the names of kinds in messages."""

import torch
from torch import Tensor, nn

from gossip.errors import UserError
from gossip.wrapper.ties import dense_stride

MIXABLE = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""What weights may be made of: numbers of which there are averages."""


def refuse_unmixable(name: str, parameter: Tensor) -> None:
    """Refuse a parameter that cannot be averaged.

    Raises:
        UserError: it has no shape yet, another dtype or layout, or elements that are not its own.
    """
    if isinstance(parameter, nn.parameter.UninitializedParameter):
        raise UserError(
            f"parameter {name!r} has no shape yet: run one batch through the module, then wrap it"
        )
    if parameter.dtype not in MIXABLE:
        allowed = ", ".join(_short(dtype) for dtype in MIXABLE)
        raise UserError(
            f"parameter {name!r} is {_short(parameter.dtype)}, which cannot be averaged: "
            f"convert it to one of {allowed}, or freeze it with requires_grad_(False)"
        )
    if parameter.layout != torch.strided:
        raise UserError(f"parameter {name!r} is {_short(parameter.layout)}: make it to_dense()")
    if not parameter.is_leaf:
        raise UserError(
            f"parameter {name!r} is computed from others (no leaf), so no optimizer changes it: "
            "give those that it is computed from"
        )
    if any(s == 0 and n > 1 for n, s in zip(parameter.shape, parameter.stride(), strict=True)):
        raise UserError(f"parameter {name!r} is expanded, its elements share memory: clone() it")


def _short(kind: torch.dtype | torch.layout) -> str:
    """'float32'."""
    return str(kind).removeprefix("torch.")


def described(tensor: Tensor) -> str:
    """What has to be the same on all processes, 'float32 [10, 5]', 'float32 [3] frozen'."""
    frozen = "" if tensor.requires_grad or not isinstance(tensor, nn.Parameter) else " frozen"
    stride = dense_stride(tensor)
    contiguous = torch.empty(tensor.shape, device="meta").stride()
    order = "" if stride == contiguous else f" strides {list(stride)}"
    return f"{_short(tensor.dtype)} {list(tensor.shape)}{order}{frozen}"
