"""Numbers as the bytes of a message, and back."""

import torch
from torch import Tensor

Part = tuple[torch.dtype, int]
"""Kind and count of the numbers of a part of each row."""


def joined(*parts: Tensor) -> Tensor:
    """The bytes of several tensors [rows, m_i], one after the other: [rows, bytes] uint8."""
    return torch.cat([as_payload(part) for part in parts], dim=1)


def as_payload(part: Tensor) -> Tensor:
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
    if bits == 8:
        return codes.to(torch.uint8)
    if bits == 4:
        pairs = torch.nn.functional.pad(codes.to(torch.uint8), (0, codes.shape[1] % 2))
        return pairs[:, 0::2] | pairs[:, 1::2] << 4
    rows, count = codes.shape
    size = packed_bytes(count, bits)
    codes = codes.to(torch.uint8) if bits < 8 else codes
    # One byte for each bit, and room for those that fill the last byte up.
    spread = codes.new_zeros(rows, 8 * size, dtype=torch.uint8)
    for bit in range(bits):
        spread[:, bit : count * bits : bits] = codes >> bit & 1
    spread = spread.reshape(rows, size, 8)
    data = spread.new_zeros(rows, size)
    for bit in range(8):
        data |= spread[:, :, bit] << bit
    return data


def unpacked(data: Tensor, bits: int, count: int) -> Tensor:
    """`count` codes of each row of what `packed` gave, int64."""
    if bits == 8:
        return data.long()
    if bits == 4:
        return torch.stack([data & 15, data >> 4], dim=2).flatten(1)[:, :count].long()
    spread = torch.stack([data >> bit & 1 for bit in range(8)], dim=2).flatten(1)
    codes = data.new_zeros(len(data), count, dtype=torch.uint8 if bits < 8 else torch.int64)
    for bit in range(bits):
        codes |= spread[:, bit : count * bits : bits].to(codes.dtype) << bit
    return codes.long()


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of so many packed codes."""
    return -(-count * bits // 8)
