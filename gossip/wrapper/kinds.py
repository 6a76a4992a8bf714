"""Kinds of tensors, in the words of messages."""

import torch
from torch import Tensor, nn

from gossip.task.parameters import short
from gossip.task.ties import dense_stride


def described(tensor: Tensor) -> str:
    """What has to be the same on all processes, 'float32 [10, 5]', 'float32 [3] frozen'."""
    frozen = "" if tensor.requires_grad or not isinstance(tensor, nn.Parameter) else " frozen"
    stride = dense_stride(tensor)
    contiguous = torch.empty(tensor.shape, device="meta").stride()
    order = "" if stride == contiguous else f" strides {list(stride)}"
    return f"{short(tensor.dtype)} {list(tensor.shape)}{order}{frozen}"
