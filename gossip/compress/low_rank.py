r"""Low rank: a matrix M [a, b] as P Q^T with orthonormal P = orth(M Q_0) and Q = M^T P.

P P^T M is an orthogonal projection, so the error's energy is exactly what is left out.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gossip.compress.operator import Kind
from gossip.compress.packing import joined, parted
from gossip.errors import UserError


@dataclass(frozen=True)
class LowRank:
    """P Q^T of rank r, of the row as a nearly square matrix [a, b] filled up with zeros.

    P = orth(M Q_0) with directions Q_0 that are drawn, Q = M^T P. ||C(x) - x||^2 <= ||x||^2 -
    ||Q||^2 for every x, with equality where d = a b and nothing is filled up, and delta >= r /
    min(a, b) on average. Payload: P [a, r] and Q [b, r].

    Layers' shapes play no part, and no direction is warm: a payload is of its row and key alone.

    Reference: Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for
    distributed optimization", NeurIPS 2019, arXiv 1905.13727.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    rank: int = 2
    """r; the whole matrix where it has no more."""

    def __post_init__(self) -> None:
        """Refuse what is no rank."""
        if self.rank < 1:
            raise UserError(f"compressor low-rank: a rank of {self.rank}: give at least 1")

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """P, then Q."""
        a, b, r = self._shape(x.shape[1])
        whole = torch.nn.functional.pad(x, (0, a * b - x.shape[1])).reshape(len(x), a, b)
        left = x.new_empty(len(x), a, r)
        right = x.new_empty(len(x), b, r)
        # Matrix by matrix, so that the bits do not depend on how many rows a process hosts.
        for m, key, p, q in zip(whole, keys.tolist(), left, right, strict=True):
            p.copy_(orthonormal(m @ directions(b, r, key).to(m)))
            q.copy_(m.T @ p)
        return joined(left.flatten(1), right.flatten(1))

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """P Q^T."""
        a, b, r = self._shape(d)
        left, right = parted(payload, (dtype, a * r), (dtype, b * r))
        rows = left.new_empty(len(left), a, b)
        for row, p, q in zip(rows, left, right, strict=True):
            row.copy_(p.view(a, r) @ q.view(b, r).T)
        return rows.flatten(1)[:, :d].contiguous()

    def size(self, d: int, itemsize: int) -> int:
        """Of the numbers, r (a + b)."""
        a, b, r = self._shape(d)
        return r * (a + b) * itemsize

    def check(self, d: int) -> None:
        """Any length fits."""

    def _shape(self, d: int) -> tuple[int, int, int]:
        b = math.isqrt(max(d - 1, 0)) + 1
        a = -(-d // b)
        return a, b, min(self.rank, a, b)


def orthonormal(m: Tensor) -> Tensor:
    """Q of m = Q R, [a, r]: unit vectors where m is 0, for Householder divides by no length."""
    wide = m.float() if m.dtype in (torch.bfloat16, torch.float16) else m
    return torch.linalg.qr(wide).Q.to(m.dtype)


def directions(b: int, r: int, key: int) -> Tensor:
    """[b, r], drawn from the key alone."""
    drawn = np.random.default_rng(key & (2**63 - 1)).standard_normal((b, r))
    return torch.from_numpy(drawn)
