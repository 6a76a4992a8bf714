r"""PowerGossip: of how two neighbours' matrices differ, each of them sends one direction a step."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, State, Step
from gossip.algorithms.compressed import length
from gossip.algorithms.derived import swaps
from gossip.algorithms.matrices import Matrix, columns, drawn, flattened, matrices, others
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.comm.by_identity import ByIdentity
from gossip.compress.low_rank import orthonormal
from gossip.errors import UserError
from gossip.optim.flat import FlatOptimizer


@dataclass(frozen=True)
class PowerGossip(Method):
    r"""PowerGossip: neighbours average along the directions in which their matrices differ most.

    With h_j = w_j + u_j and the matrices H_j [a, b] of its layers, the two ends of an edge have
    orthonormal directions Q [b, r] in common, and

    .. math::
        P = (H_j - H_k) Q, \qquad
        W_j(t+1) = H_j - \sum_k W_{jk} P Q^T, \qquad Q \leftarrow \mathrm{orth}(P)

    At the next step it is the other side's turn: P = (H_j - H_k)^T Q with Q [a, r], and Q P^T is
    taken off. So each step is half of a power iteration on the difference, which begins where the
    last one ended and needs no error memory and no gamma. Both ends compute the same P to the bit,
    so the mean of the weights moves by the mean increment exactly. Layers that are no matrices are
    averaged as they are. Where Q is square it is ATC: with r = min(a, b) at each step of a square
    matrix, and at every second step of another.

    - sent: H_j Q along each edge, r a or r b numbers in turns, and the numbers of no matrix; after
      the gradient. Both ends together send r (a + b) a step on average
    - state: Q of each neighbour, in the order of the edges' colours
    - after learners are lost it begins again with directions that are drawn
    - defaults: r = 1 (the authors')

    Reference: Vogels, Karimireddy, Jaggi, "Practical low-rank communication compression in
    decentralized deep learning", NeurIPS 2020, arXiv 2008.01425.
    """

    properties: ClassVar[Properties] = Properties(
        columns="always", symmetric=True, static=True, rounds=False
    )
    later: ClassVar[tuple[str, ...]] = ("directions",)
    """What it keeps from its first step on, in a shape that follows from the graph."""

    rank: int = 1
    """r."""
    seed: int = 0
    """Of the first directions."""

    def __post_init__(self) -> None:
        """Refuse what is no rank."""
        if self.rank < 1:
            raise UserError(f"rank={self.rank}: give at least 1")

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A message's share of a row, after the gradient."""
        d = length(self.optimizer().layers)
        return (phases.LocalGradient(), phases.Mix(self._numbers(d) / d))

    def payload_bytes(self, d: int, itemsize: int) -> float:
        """Sent along each edge in a step, on average over both turns."""
        return itemsize * self._numbers(d)

    def _numbers(self, d: int) -> float:
        found = matrices(self.optimizer().layers, d)
        sides = sum(m.rank(self.rank) * (m.a + m.b) for m in found)
        return sides / 2 + int(others(found, d).sum())

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step, tell each neighbour of the directions in common, go towards it along them."""
        x, edges = state.x, meetings(w)
        gradients = gradient(x)
        lr = rate(x, gradients)
        h = state.optimizer.step(x, gradients.values, lr)
        turn = self._turn(state, len(h), len(edges))
        own = [
            torch.stack([turn.message(row, q[c]) for row, q in zip(h, turn.q, strict=True)])
            for c in range(len(edges))
        ]
        pending = [comm.start_mix(y, e.swap) for y, e in zip(own, edges, strict=True)]
        arrived = [wait() for wait in pending]
        x_next, kept = h.clone(), []
        for local, j in enumerate(comm.hosted):
            for c, edge in enumerate(edges):
                # The lower number's less the higher's: the same at both ends to the bit, signs of
                # zeros included, by which a QR may turn its vectors.
                sign = 1.0 if j < edge.partner[j] else -1.0
                here, there = own[c][local], arrived[c][local]
                p = here - there if sign > 0 else there - here
                x_next[local] -= sign * float(edge.weight[j]) * turn.along(p, turn.q[local, c])
                kept.append(turn.next(p))
        rows = torch.stack(kept).unflatten(0, (len(h), len(edges))) if kept else turn.q
        return (
            State(state.step + 1, x_next, state.optimizer, {"directions": rows}),
            Step(x, gradients.values, gradients.losses, x_next, lr),
        )

    def _turn(self, state: State[FlatOptimizer], local: int, edges: int) -> "_Turn":
        found = matrices(state.optimizer.layers, state.x.shape[1])
        blocks = [m if state.step % 2 == 0 else m.turned for m in found]
        ranks = [m.rank(self.rank) for m in found]
        rest = others(found, state.x.shape[1]).to(state.x.device)
        if (q := state.rows.get("directions")) is None:
            q = drawn([m.b for m in blocks], ranks, self.seed).to(state.x).expand(local, edges, -1)
        return _Turn(blocks, ranks, rest, q)


class _Turn(NamedTuple):
    """A step's side of all matrices."""

    blocks: list[Matrix]
    """Of which Q has b rows."""
    ranks: list[int]
    rest: Tensor
    """Numbers that are in no matrix, [d] bool."""
    q: Tensor
    """Q of all matrices one after the other, [local, edges, numbers]."""

    def message(self, row: Tensor, q: Tensor) -> Tensor:
        """H Q of each matrix, and the numbers that are in none."""
        products = [m.of(row) @ own for m, own in zip(self.blocks, self._right(q), strict=True)]
        return torch.cat((flattened(products, row), row[self.rest]))

    def along(self, p: Tensor, q: Tensor) -> Tensor:
        """P Q^T of each matrix, and the other numbers as they are, [d]."""
        row = p.new_empty(len(self.rest))
        for m, left, right in zip(self.blocks, self._left(p), self._right(q), strict=True):
            m.put(row, left @ right.T)
        row[self.rest] = p[len(p) - int(self.rest.sum()) :]
        return row

    def next(self, p: Tensor) -> Tensor:
        """Directions of the other side: of each P."""
        return flattened([orthonormal(left) for left in self._left(p)], p)

    def _left(self, p: Tensor) -> list[Tensor]:
        return columns(p, [m.a for m in self.blocks], self.ranks)

    def _right(self, q: Tensor) -> list[Tensor]:
        return columns(q, [m.b for m in self.blocks], self.ranks)


class _Meeting(NamedTuple):
    """What is swapped at once, and between whom."""

    swap: csr_array
    partner: NDArray[np.int64]
    """Whose message arrives, one's own if nobody's."""
    weight: NDArray[np.float64]
    """W of the two."""


def _meetings(w: csr_array) -> list[_Meeting]:
    everyone, dense = np.arange(w.shape[0]), w.toarray()
    found = []
    for swap in swaps(w):
        partner = (swap @ everyone).astype(np.int64)
        found.append(_Meeting(swap, partner, dense[everyone, partner]))
    return found


meetings = ByIdentity(_meetings)
"""The swaps of W with its weights."""
