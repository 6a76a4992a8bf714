"""A few of the numbers as they are: all, the largest, random ones, the largest frequencies."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gossip.compress.operator import Kind
from gossip.compress.packing import joined, parted
from gossip.errors import UserError


@dataclass(frozen=True)
class Identity:
    """C(x) = x: delta = 1, omega = 0."""

    kind: ClassVar[Kind] = "unbiased"
    leaves_out: ClassVar[bool] = False

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """The numbers' own bytes."""
        return joined(x)

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """The numbers."""
        return parted(payload, (dtype, d))[0]

    def size(self, d: int, itemsize: int) -> int:
        """All of them."""
        return d * itemsize

    def check(self, d: int) -> None:
        """Any length fits."""


@dataclass(frozen=True)
class _Some:
    """Keeps k of d numbers: `share` of them below 1, else that many."""

    share: float = 0.01
    """A share of d in (0, 1), at least one number, or a whole number k."""

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        whole = math.isfinite(self.share) and self.share == int(self.share)
        if not (0 < self.share < 1 or (self.share >= 1 and whole)):
            raise UserError(
                f"compressor: {self.share} of the numbers: give a share in (0, 1) or a whole number"
            )

    def kept(self, d: int) -> int:
        """K."""
        return min(d, max(1, round(self.share * d)) if self.share < 1 else int(self.share))

    def check(self, d: int) -> None:
        """K must not be above d.

        Raises:
            UserError: it is.
        """
        if self.share > d:
            raise UserError(
                f"compressor: {self.share:g} numbers of a model that has {d}: give fewer, or a "
                "share below 1"
            )


@dataclass(frozen=True)
class TopK(_Some):
    """The k largest absolute values; of equal ones those of the lowest index.

    ||C(x) - x||^2 <= (1 - k/d) ||x||^2 for every x, with equality where all |x_i| are equal.
    Payload: k values and k indices of 4 bytes.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Values, then indices in rising order."""
        where = largest(x, self.kept(x.shape[1]))
        return joined(x.gather(1, where), where.int())

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """Zero but for what was kept."""
        k = self.kept(d)
        values, where = parted(payload, (dtype, k), (torch.int32, k))
        return values.new_zeros(len(values), d).scatter_(1, where.long(), values)

    def size(self, d: int, itemsize: int) -> int:
        """K (value + index)."""
        return self.kept(d) * (itemsize + 4)


@dataclass(frozen=True)
class RandomK(_Some):
    """k numbers at indices drawn without replacement: E||C(x) - x||^2 = (1 - k/d) ||x||^2.

    Payload: the key, from which the receiver draws the same indices, and k values.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Key, then values."""
        where = self._drawn(keys, x.shape[1]).to(x.device)
        return joined(keys.to(x.device).unsqueeze(1), x.gather(1, where))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """Zero but for what was kept."""
        keys, values = parted(payload, (torch.int64, 1), (dtype, self.kept(d)))
        where = self._drawn(keys.flatten(), d).to(values.device)
        return values.new_zeros(len(values), d).scatter_(1, where, self.factor(d) * values)

    def size(self, d: int, itemsize: int) -> int:
        """The key and k values."""
        return 8 + self.kept(d) * itemsize

    def factor(self, d: int) -> float:
        """By which what is kept is multiplied."""
        return 1.0

    def _drawn(self, keys: Tensor, d: int) -> Tensor:
        k = self.kept(d)
        rows = [
            np.random.default_rng(key & (2**63 - 1)).choice(d, k, replace=False)
            for key in keys.tolist()
        ]
        return torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, k, dtype=torch.int64)


@dataclass(frozen=True)
class UnbiasedRandomK(RandomK):
    """As random-k, times d/k: E C(x) = x and omega = d/k - 1 exactly."""

    kind: ClassVar[Kind] = "unbiased"

    def factor(self, d: int) -> float:
        """d/k."""
        return d / self.kept(d)

    def omega(self, d: int) -> float:
        """d/k - 1."""
        return self.factor(d) - 1


@dataclass(frozen=True)
class DctTopK:
    """The largest k coefficients of the orthonormal DCT-II of each chunk.

    The error's energy is that of the coefficients left out, at most (1 - k/chunk) ||x||^2. Payload:
    for each chunk k values and k indices of 2 bytes; a row is filled up with zeros to whole chunks.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    chunk: int = 64
    """Numbers that are transformed together."""
    k: int = 8
    """Coefficients that are kept of each."""

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        if not 1 <= self.k <= self.chunk <= 2**15:
            raise UserError(
                f"compressor dct: {self.k} of {self.chunk} coefficients: give 1 to chunk, "
                f"and chunks of at most {2**15}"
            )

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Values of all chunks, then their indices."""
        rows, d = x.shape
        whole = torch.nn.functional.pad(x, (0, -d % self.chunk)).reshape(rows, -1, self.chunk)
        spectrum = _row_by_row(whole, cosines(self.chunk, x.dtype).T.to(x.device))
        where = largest(spectrum, self.k)
        values = spectrum.gather(1, where)
        return joined(values.reshape(rows, -1), where.short().reshape(rows, -1))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """The kept coefficients, transformed back."""
        count = self._chunks(d) * self.k
        values, where = parted(payload, (dtype, count), (torch.int16, count))
        spectrum = values.new_zeros(len(values) * self._chunks(d), self.chunk)
        spectrum.scatter_(1, where.long().reshape(-1, self.k), values.reshape(-1, self.k))
        chunks = spectrum.reshape(len(values), -1, self.chunk)
        whole = _row_by_row(chunks, cosines(self.chunk, dtype).to(values.device))
        return whole.reshape(len(values), self._chunks(d) * self.chunk)[:, :d].contiguous()

    def size(self, d: int, itemsize: int) -> int:
        """Of each chunk, k (value + index)."""
        return self._chunks(d) * self.k * (itemsize + 2)

    def check(self, d: int) -> None:
        """Any length fits."""

    def _chunks(self, d: int) -> int:
        return -(-d // self.chunk)


def _row_by_row(chunks: Tensor, matrix: Tensor) -> Tensor:
    """[rows, chunks, chunk] times a matrix, as [rows * chunks, chunk].

    Sender and receivers must have the same bits, whoever decodes how many rows at once.
    """
    return torch.cat([row.contiguous() @ matrix for row in chunks])


def largest(x: Tensor, k: int) -> Tensor:
    """Indices of the k largest absolute values of each row in rising order, [rows, k].

    Of equal ones the first; numbers that are not finite are the largest.
    """
    size = x.abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    least = size.topk(k, dim=1).values[:, -1:] if k else size[:, :0]
    above = size > least
    level = size == least
    missing = k - above.sum(dim=1, keepdim=True)
    chosen = above | (level & (level.cumsum(dim=1) <= missing))
    return chosen.nonzero()[:, 1].reshape(len(x), k)


@cache
def cosines(size: int, dtype: torch.dtype) -> Tensor:
    """The orthonormal DCT-II, [size, size]: row f is the cosine of frequency f."""
    frequency = torch.arange(size, dtype=torch.float64)
    angle = torch.pi * (2 * frequency + 1) * frequency.unsqueeze(1) / (2 * size)
    matrix = torch.cos(angle) * (2 / size) ** 0.5
    matrix[0] /= 2**0.5
    return matrix.to(dtype)
