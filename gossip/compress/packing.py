"""Numbers as the bytes of a message, and back."""

import torch
from torch import Tensor

Part = tuple[torch.dtype, int]
"""Kind and count of the numbers of a part of each row."""


def joined(*parts: Tensor) -> Tensor:
    """The bytes of several tensors [rows, m_i], one after the other: [rows, bytes] uint8."""
    return torch.cat([as_bytes(part) for part in parts], dim=1)


def as_bytes(part: Tensor) -> Tensor:
    """[rows, m] of any dtype as [rows, bytes] uint8."""
    if part.numel() == 0:
        return part.new_zeros(len(part), 0, dtype=torch.uint8)
    return part.contiguous().view(torch.uint8).reshape(len(part), -1)


def parted(payload: Tensor, *parts: Part) -> list[Tensor]:
    """What `joined` joined: [rows, count] of each dtype."""
    found, at = [], 0
    for dtype, count in parts:
        size = count * dtype.itemsize
        # A copy, since a part need not begin where its dtype may.
        own = payload[:, at : at + size].clone(memory_format=torch.contiguous_format)
        whole = own.view(dtype) if own.numel() else own.new_zeros(len(own), count, dtype=dtype)
        found.append(whole)
        at += size
    return found


def packed(codes: Tensor, bits: int) -> Tensor:
    """Codes [rows, m] below 2^bits as bytes, [rows, ceil(m bits / 8)], low bits first."""
    rows = len(codes)
    spread = (codes.long().unsqueeze(-1) >> torch.arange(bits, device=codes.device)) & 1
    flat = spread.reshape(rows, -1)
    missing = -flat.shape[1] % 8
    flat = torch.nn.functional.pad(flat, (0, missing)).reshape(rows, -1, 8)
    return (flat << torch.arange(8, device=codes.device)).sum(dim=-1).to(torch.uint8)


def unpacked(data: Tensor, bits: int, count: int) -> Tensor:
    """`count` codes of each row of what `packed` gave, int64."""
    rows = len(data)
    spread = (data.long().unsqueeze(-1) >> torch.arange(8, device=data.device)) & 1
    flat = spread.reshape(rows, -1)[:, : count * bits].reshape(rows, count, bits)
    return (flat << torch.arange(bits, device=data.device)).sum(dim=-1)


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of so many packed codes."""
    return -(-count * bits // 8)
