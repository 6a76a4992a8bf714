"""All of the numbers with few bits: scaled sign, QSGD, integers and FP4 by block."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gossip.compress.operator import Kind
from gossip.compress.packing import joined, packed, packed_bytes, parted, unpacked
from gossip.errors import UserError


@dataclass(frozen=True)
class ScaledSign:
    """(||x||_1 / d) sign(x), 0 counting as positive.

    ||C(x) - x||^2 = ||x||^2 - ||x||_1^2 / d exactly, so delta = ||x||_1^2 / (d ||x||^2) in
    [1/d, 1]. Payload: the scale and a bit for each number.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Scale, then signs."""
        # Row by row, so that the bits do not depend on how many rows a process hosts.
        scale = torch.stack([row.contiguous().abs().mean() for row in x]).unsqueeze(1)
        return joined(scale, packed(x < 0, 1))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """Plus or minus the scale."""
        scale, bits = parted(payload, (dtype, 1), (torch.uint8, packed_bytes(d, 1)))
        return scale * (1 - 2 * unpacked(bits, 1, d)).to(dtype)

    def size(self, d: int, itemsize: int) -> int:
        """A number and d bits."""
        return itemsize + packed_bytes(d, 1)

    def check(self, d: int) -> None:
        """Any length fits."""


@dataclass(frozen=True)
class Qsgd:
    r"""||x||/s sign(x_i) (\lfloor s|x_i|/||x|| \rfloor + Bernoulli of the rest).

    Unbiased, with E||C(x) - x||^2 = (||x||/s)^2 sum p_i (1 - p_i) for the remainders p_i, so omega
    <= min(d/s^2, sqrt(d)/s). Payload: the norm, and 1 + ceil(log2(s + 1)) bits for each number.

    Reference: Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and
    encoding", NeurIPS 2017, arXiv 1610.02132.
    """

    kind: ClassVar[Kind] = "unbiased"
    leaves_out: ClassVar[bool] = True

    levels: int = 16
    """s."""

    def __post_init__(self) -> None:
        """Refuse what no code can hold."""
        if not 1 <= self.levels < 2**16:
            raise UserError(f"compressor qsgd: {self.levels} levels: give 1 to {2**16 - 1}")

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Norm, then codes: the sign below the level."""
        # Row by row, so that the bits do not depend on how many rows a process hosts.
        norm = torch.stack([torch.linalg.vector_norm(row.contiguous()) for row in x]).unsqueeze(1)
        drawn = torch.stack([_uniform(key, x.shape[1]) for key in keys.tolist()])
        scaled = (x.abs() / norm * self.levels).nan_to_num(0.0, 0.0, 0.0)
        level = scaled.floor()
        level += drawn.to(x.device) < scaled - level
        codes = 2 * level.clamp_(max=self.levels).long() + (x < 0)
        return joined(norm, packed(codes, self._bits))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """The level's share of the norm, with its sign."""
        norm, data = parted(payload, (dtype, 1), (torch.uint8, packed_bytes(d, self._bits)))
        codes = unpacked(data, self._bits, d)
        level = (codes >> 1).to(dtype)
        return norm / self.levels * level * (1 - 2 * (codes & 1)).to(dtype)

    def size(self, d: int, itemsize: int) -> int:
        """A number and d codes."""
        return itemsize + packed_bytes(d, self._bits)

    def check(self, d: int) -> None:
        """Any length fits."""

    def omega(self, d: int) -> float:
        """min(d/s^2, sqrt(d)/s), which holds for every row."""
        return min(d / self.levels**2, math.sqrt(d) / self.levels)

    @property
    def _bits(self) -> int:
        return 1 + self.levels.bit_length()


@dataclass(frozen=True)
class Integers:
    """Whole multiples of a scale of each block: absmax / 127 (8 bits) or absmax / 7 (4 bits).

    Each error is at most half the scale, absmax/254 or absmax/14. Payload: for each block a scale
    in float32, then the codes.

    Numbers keep to the range of float32: of float64 rows a block whose scale is above that is not
    finite at the other end, and one whose scale is below it is 0.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = False

    bits: int = 8
    """8 or 4."""
    block: int = 256
    """Numbers that share a scale."""

    def __post_init__(self) -> None:
        """Refuse what is no block."""
        if self.bits not in (4, 8):
            raise UserError(f"compressor: integers of {self.bits} bits: give 4 or 8")
        _check_block(self.block)

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Scales, then codes with an offset."""
        blocks = _blocks(x, self.block)
        scale = (blocks.abs().amax(dim=2) / self._most).float()
        multiples = blocks / scale.to(x.dtype).unsqueeze(2)
        codes = multiples.nan_to_num(0.0, 0.0, 0.0).round().clamp_(-self._most, self._most)
        offset = codes.long().reshape(len(x), -1)[:, : x.shape[1]] + self._most
        return joined(scale, packed(offset, self.bits))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """Codes times scales."""
        count = -(-d // self.block)
        scale, data = parted(
            payload, (torch.float32, count), (torch.uint8, packed_bytes(d, self.bits))
        )
        codes = (unpacked(data, self.bits, d) - self._most).to(dtype)
        return codes * scale.to(dtype).repeat_interleave(self.block, dim=1)[:, :d]

    def size(self, d: int, itemsize: int) -> int:
        """4 bytes for each block and d codes."""
        return 4 * -(-d // self.block) + packed_bytes(d, self.bits)

    def check(self, d: int) -> None:
        """Any length fits."""

    @property
    def _most(self) -> int:
        return 2 ** (self.bits - 1) - 1


VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of E2M1."""


@dataclass(frozen=True)
class Fp4:
    """E2M1: plus or minus 0, 0.5, 1, 1.5, 2, 3, 4, 6 times a power of two of each block.

    The power is the least with which the block's largest fits, so nothing is cut off, and a number
    from 1 up in its units is at most a fifth off. Payload: a byte for each block's power, then 4
    bits for each number.

    The powers are 2^-126 to 2^127: of float64 rows a block with a number above 6 * 2^127 is NaN at
    the other end, and numbers below 2^-128 are 0.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = False

    block: int = 32
    """Numbers that share a power of two."""

    def __post_init__(self) -> None:
        """Refuse what is no block."""
        _check_block(self.block)

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Powers, then codes: the sign above the magnitude."""
        blocks = _blocks(x, self.block)
        most = blocks.abs().amax(dim=2)
        power = torch.log2(most.double() / VALUES[-1]).ceil().nan_to_num(LOST, LOST, -126)
        power = power.clamp_(-126, LOST)
        unit = torch.exp2(power).to(x.dtype).unsqueeze(2)
        size = (blocks.abs() / unit).nan_to_num(0.0, 0.0, 0.0)
        table = torch.tensor(VALUES, dtype=x.dtype, device=x.device)
        magnitude = torch.bucketize(size.contiguous(), (table[1:] + table[:-1]) / 2)
        codes = (magnitude + 8 * (blocks < 0)).reshape(len(x), -1)[:, : x.shape[1]]
        return joined((power + 127).to(torch.uint8), packed(codes, 4))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """Magnitude, sign and unit; NaN in a block that was not finite."""
        count = -(-d // self.block)
        power, data = parted(payload, (torch.uint8, count), (torch.uint8, packed_bytes(d, 4)))
        codes = unpacked(data, 4, d)
        table = torch.tensor(VALUES, dtype=dtype, device=payload.device)
        value = table[codes & 7] * (1 - 2 * (codes >> 3)).to(dtype)
        exponent = power.to(torch.float64) - 127
        unit = torch.exp2(exponent).masked_fill(exponent == LOST, torch.nan).to(dtype)
        return value * unit.repeat_interleave(self.block, dim=1)[:, :d]

    def size(self, d: int, itemsize: int) -> int:
        """A byte for each block and d codes."""
        return -(-d // self.block) + packed_bytes(d, 4)

    def check(self, d: int) -> None:
        """Any length fits."""


LOST = 128
"""In the place of a power: the block had a number that is not finite."""


def _blocks(x: Tensor, block: int) -> Tensor:
    """[rows, blocks, block], the last filled up with zeros."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % block)).reshape(len(x), -1, block)


def _check_block(block: int) -> None:
    if block < 1:
        raise UserError(f"compressor: blocks of {block} numbers: give at least 1")


def _uniform(key: int, d: int) -> Tensor:
    """[d] in [0, 1), drawn from the key alone."""
    random = torch.Generator().manual_seed(key & (2**63 - 1))
    return torch.rand(d, generator=random, dtype=torch.float64)


@dataclass(frozen=True)
class TwoBit:
    """Four values for each block: the means of the bins of numbers about the block's own mean.

    With shift the mean and scale 6/4 of the standard deviation, x_i is in bin clamp(round((x_i -
    shift) / scale + 2), 0, 3), and comes out as the mean of all that are in its bin. So C is a
    projection that keeps each block's mean, with ||C(x) - x||^2 = ||x||^2 - ||C(x)||^2. Bins are
    not symmetric, -2 to 1, as published. Payload: for each block four values in float32, then 2
    bits for each number; numbers keep to the range of float32.

    Reference: Sarfi et al., "Communication efficient LLM pre-training with SparseLoCo", 2025, arXiv
    2508.15706.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    block: int = 256
    """Numbers that share a table."""

    def __post_init__(self) -> None:
        """Refuse what is no block."""
        _check_block(self.block)

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Tables, then codes."""
        tables, codes = [], []
        # Block by block, so that the bits do not depend on how many rows a process hosts.
        for row in x:
            for part in row.contiguous().split(self.block):
                table, code = self._binned(part.double())
                tables.append(table)
                codes.append(code)
        table = torch.cat(tables).reshape(len(x), -1)
        return joined(table, packed(torch.cat(codes).reshape(len(x), -1), 2))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """The table's values."""
        count = -(-d // self.block)
        table, data = parted(payload, (torch.float32, 4 * count), (torch.uint8, packed_bytes(d, 2)))
        first = 4 * (torch.arange(d, device=payload.device) // self.block)
        return table.gather(1, unpacked(data, 2, d) + first).to(dtype)

    def size(self, d: int, itemsize: int) -> int:
        """16 bytes for each block and d codes."""
        return 16 * -(-d // self.block) + packed_bytes(d, 2)

    def check(self, d: int) -> None:
        """Any length fits."""

    @staticmethod
    def _binned(part: Tensor) -> tuple[Tensor, Tensor]:
        """Table [4] in float32 and codes; all of a block that is not finite is NaN."""
        if not part.isfinite().all():
            return part.new_full((4,), torch.nan).float(), torch.zeros_like(part, dtype=torch.long)
        shift, scale = part.mean(), 1.5 * part.std(correction=0)
        codes = ((part - shift) / scale + 2).nan_to_num(2.0).round().clamp_(0, 3).long()
        sums = part.new_zeros(4).index_add_(0, codes, part)
        return (sums / codes.bincount(minlength=4).clamp_(min=1)).float(), codes
