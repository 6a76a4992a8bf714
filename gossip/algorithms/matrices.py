"""A flat row as the matrices of its layers, for methods that send what is low in rank."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gossip.compress.low_rank import directions, orthonormal
from gossip.streams import COMPRESSION, generator
from gossip.task.layers import Layer


class Matrix(NamedTuple):
    """Numbers start..stop of a row as a matrix [a, b], filled up with zeros."""

    start: int
    stop: int
    a: int
    b: int
    transposed: bool = False
    """Whether the numbers are those of the matrix [b, a] that it is the transpose of."""

    @property
    def turned(self) -> "Matrix":
        """The transpose."""
        return Matrix(self.start, self.stop, self.b, self.a, not self.transposed)

    def of(self, row: Tensor) -> Tensor:
        """The matrix of a row [d], [a, b]."""
        own = row[self.start : self.stop]
        whole = torch.nn.functional.pad(own, (0, self.a * self.b - len(own)))
        return whole.view(self.b, self.a).T if self.transposed else whole.view(self.a, self.b)

    def put(self, row: Tensor, m: Tensor) -> None:
        """Give a row [d] the numbers of such a matrix."""
        own = m.T if self.transposed else m
        row[self.start : self.stop] = own.flatten()[: self.stop - self.start]

    def rank(self, most: int) -> int:
        """Of a product that stands for it, at most."""
        return min(most, self.a, self.b)


def matrices(layers: Sequence[Layer], d: int, *, vectors: bool = False) -> tuple[Matrix, ...]:
    """Layers of two dimensions and more as [shape[0], all others]; others belong to none.

    A row whose layers are not known is one square.

    Args:
        layers: the columns of each parameter tensor.
        d: numbers of the row.
        vectors: whether the others are matrices too, of one row.
    """
    if not layers:
        side = math.isqrt(max(d - 1, 0)) + 1
        return (Matrix(0, d, side, side),)
    found = []
    for k in layers:
        if len(k.shape) > 1 or vectors:
            a = k.shape[0] if len(k.shape) > 1 else 1
            found.append(Matrix(k.start, k.stop, a, (k.stop - k.start) // a))
    return tuple(found)


def others(found: Sequence[Matrix], d: int) -> Tensor:
    """Which numbers of a row of d belong to none of the matrices, [d] bool."""
    rest = torch.ones(d, dtype=torch.bool)
    for m in found:
        rest[m.start : m.stop] = False
    return rest


def columns(numbers: Tensor, sides: Sequence[int], ranks: Sequence[int]) -> list[Tensor]:
    """Matrices [side, r] that lie one after the other, with something else behind them."""
    sizes = [side * r for side, r in zip(sides, ranks, strict=True)]
    parts = numbers[: sum(sizes)].split(sizes)
    return [part.view(-1, r) for part, r in zip(parts, ranks, strict=True)]


def flattened(found: Sequence[Tensor], like: Tensor) -> Tensor:
    """The numbers of such matrices one after the other; of none, none of the kind of `like`."""
    return torch.cat([m.flatten() for m in found]) if found else like.new_zeros(0)


def drawn(sides: Sequence[int], ranks: Sequence[int], seed: int) -> Tensor:
    """Orthonormal matrices [side, r] to begin with, the same for all learners, as `flattened`."""
    draw = generator(seed, COMPRESSION)
    return flattened(
        [
            orthonormal(directions(side, r, int(draw.integers(2**63))))
            for side, r in zip(sides, ranks, strict=True)
        ],
        torch.zeros(0, dtype=torch.float64),
    )
