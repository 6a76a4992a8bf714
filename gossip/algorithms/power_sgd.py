"""PowerSGD: gradients as products of low rank, averaged side by side."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import LearningRate, Rows, State
from gossip.algorithms.compressed import length
from gossip.algorithms.exchanged import Exchanged
from gossip.algorithms.matrices import Matrix, columns, drawn, flattened, matrices, others
from gossip.comm.base import Communicator
from gossip.compress.low_rank import orthonormal
from gossip.errors import UserError
from gossip.optim.flat import FlatOptimizer
from gossip.task import Gradients

SAVES = 2
"""A matrix is sent as a product if that is less than one in so many of its numbers (torch's)."""


@dataclass(frozen=True)
class PowerSgd(Exchanged):
    r"""PowerSGD: gradients are averaged as products of low rank, and what is left out is kept.

    Of each matrix M_j [a, b] of g_j + e_j, with orthonormal Q [b, r] in common,

    .. math::
        P = \mathrm{orth}\Big(\frac1n \sum_j M_j Q\Big), \qquad
        Q' = \frac1n \sum_j M_j^T P, \qquad \hat M = P Q'^T, \qquad
        e_j \leftarrow M_j - \hat M, \qquad Q \leftarrow \mathrm{orth}(Q')

    and the optimizer takes \hat M. It is linear in M: n learners are one that has the mean matrix.
    Each step is a power iteration that begins where the last one ended. Where Q is square it is
    SSGD. Layers that are no matrices, or would save less than half, are averaged as they are.

    - sent: averages of r a numbers and the rest of the row, then of r b, after the gradient; in the
      first steps, of the row
    - state: e, and Q, the same for all
    - W plays no part
    - defaults: r = 1 (torch's hook); after 100 steps of SSGD (ours; torch's hook has 1000)

    Reference: Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for
    distributed optimization", NeurIPS 2019, arXiv 1905.13727.
    """

    rank: int = 1
    """r."""
    after: int = 100
    """Steps of SSGD in the beginning."""
    seed: int = 0
    """Of the first Q."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.rank < 1:
            raise UserError(f"rank={self.rank}: give at least 1")
        if self.after < 0:
            raise UserError(f"after={self.after}: it is a number of steps, 0 or more")

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """An average of the row, later one of each side."""
        d = length(self.optimizer().layers)
        found = self._found(d)
        if not found:
            return (phases.LocalGradient(), phases.Mean())
        rest = int(others(found, d).sum())
        left = sum(m.a * m.rank(self.rank) for m in found) + rest
        right = sum(m.b * m.rank(self.rank) for m in found)
        first = phases.Until(self.after, phases.Mean())
        sides = (phases.Every(1, phases.Mean(k / d), after=self.after) for k in (left, right))
        return (phases.LocalGradient(), first, *sides)

    def payload_bytes(self, d: int, itemsize: int) -> float:
        """Of what is averaged, the mean of both sides."""
        found = self._found(d)
        sides = sum((m.a + m.b) * m.rank(self.rank) for m in found)
        return itemsize * (sides + int(others(found, d).sum())) / 2

    def _found(self, d: int) -> list[Matrix]:
        """The matrices that are sent as products."""
        layers = self.optimizer().layers
        return [
            m
            for m in matrices(layers, d)
            if not layers or SAVES * m.rank(self.rank) * (m.a + m.b) < m.a * m.b
        ]

    def start(self, x: Tensor) -> Rows:
        """Nothing has been left out, and Q is drawn."""
        found = self._found(x.shape[1])
        q = drawn([m.b for m in found], [m.rank(self.rank) for m in found], self.seed).to(x)
        return {"error": torch.zeros_like(x), "directions": q.repeat(len(x), 1)}

    def directed(
        self,
        state: State[FlatOptimizer],
        gradients: Gradients,
        rate: LearningRate,
        comm: Communicator,
    ) -> "tuple[Tensor, float | Tensor, Rows]":
        """Average the products with Q, then those with P."""
        direction, rows = self.agree(gradients.values, state, comm)
        return direction, rate(state.x, gradients, direction), rows

    def agree(
        self, gradients: Tensor, state: State[FlatOptimizer], comm: Communicator
    ) -> tuple[Tensor, Rows]:
        """M^ of the gradients [local, d], and what is kept of finding out."""
        d = gradients.shape[1]
        found = self._found(d)
        if state.step < self.after or not found:
            return comm.mean(gradients), state.rows
        ranks = [m.rank(self.rank) for m in found]
        rest = others(found, d).to(gradients.device)
        rows = gradients + state.rows["error"]
        q = columns(state.rows["directions"][0], [m.b for m in found], ranks)
        left = [[m.of(row) @ k for m, k in zip(found, q, strict=True)] for row in rows]
        sent = [
            torch.cat((flattened(m, row), row[rest])) for m, row in zip(left, rows, strict=True)
        ]
        mean = comm.mean(torch.stack(sent))
        p = [orthonormal(m) for m in columns(mean, [m.a for m in found], ranks)]
        right = [[m.of(row).T @ k for m, k in zip(found, p, strict=True)] for row in rows]
        sums = comm.mean(
            torch.stack([flattened(m, row) for m, row in zip(right, rows, strict=True)])
        )
        q = columns(sums, [m.b for m in found], ranks)
        direction = torch.empty_like(rows[0])
        direction[rest] = mean[len(mean) - int(rest.sum()) :]
        for m, a, b in zip(found, p, q, strict=True):
            m.put(direction, a @ b.T)
        error = (rows - direction).masked_fill(rest, 0)
        kept = flattened([orthonormal(m) for m in q], rows)
        return direction, {"error": error, "directions": kept.repeat(len(rows), 1)}
