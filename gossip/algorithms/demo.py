"""DeMo: of each learner's momentum the largest frequencies are taken out and sent."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import LearningRate, Rows, State
from gossip.algorithms.bounds import share_below_one
from gossip.algorithms.compressed import length
from gossip.algorithms.exchanged import Exchanged, in_order
from gossip.algorithms.matrices import Matrix, matrices
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.compress.packing import joined, parted
from gossip.compress.sparse import cosines, largest
from gossip.errors import UserError, one_of
from gossip.optim.flat import FlatOptimizer
from gossip.task import Gradients

MERGES = ("contributors", "all")


@dataclass(frozen=True)
class DeMo(Exchanged):
    r"""DeMo: momentum stays with its learner, but for its largest frequencies, which all follow.

    .. math::
        \delta_j \leftarrow \beta \delta_j + \alpha g_j, \qquad q_j = C(\delta_j), \qquad
        \delta_j \leftarrow \delta_j - q_j, \qquad
        w \leftarrow \mathrm{OPT}(w, \mathrm{sign}(\mathrm{merge}(q)))

    C keeps the k largest coefficients of the orthonormal DCT-II of each chunk: a matrix [a, b] is
    cut into chunks of the largest divisors of a and b up to `chunk`, a vector likewise. A merged
    coefficient is the mean over the learners that have sent it (``contributors``), or over all, of
    whom the others count 0 (``all``). With all coefficients kept it is sign SGD on the mean
    gradient, whatever beta, for alpha is in delta and nothing is left there.

    - sent: k values and indices of 2 bytes for each chunk to everybody, after the gradient; merged
      in the order of learners, so that all have the same bits
    - state: delta
    - weight decay is the optimizer's, plain SGD's
    - W plays no part
    - defaults: beta 0.999, k = 32, chunks of 64, contributors (the authors', alpha 0.0004)

    Reference: Peng, Quesnelle, Kingma, "DeMo: decoupled momentum optimization", 2024, arXiv
    2411.19870.
    """

    properties: ClassVar[Properties] = replace(
        Exchanged.properties, own_momentum=True, one_rate=True, exact_mean=True
    )

    beta: float = 0.999
    """beta, in [0, 1): what is kept of what was not sent."""
    k: int = 32
    """Coefficients that are sent of each chunk, at most all."""
    chunk: int = 64
    """Numbers along each side of a chunk, at most."""
    merge: str = "contributors"
    """One of `MERGES`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        share_below_one("beta", self.beta)
        if self.k < 1:
            raise UserError(f"k={self.k}: at least 1 coefficient of each chunk is sent")
        if not 1 <= self.chunk <= 128:
            raise UserError(f"chunk={self.chunk}: the side of a chunk is from 1 to 128")
        one_of(MERGES, self.merge, "option merge")

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and coefficients for everybody."""
        d = length(self.optimizer().layers)
        return (phases.LocalGradient(), phases.AllGather(self.payload_bytes(d, 4) / (4 * d)))

    def payload_bytes(self, d: int, itemsize: int) -> int:
        """Sent to each of the others in a step."""
        return (itemsize + 2) * sum(c.number * c.kept(self.k) for c in self._chunks(d))

    def start(self, x: Tensor) -> Rows:
        """No momentum yet."""
        return {"momentum": torch.zeros_like(x)}

    def directed(
        self,
        state: State[FlatOptimizer],
        gradients: Gradients,
        rate: LearningRate,
        comm: Communicator,
    ) -> "tuple[Tensor, float | Tensor, Rows]":
        """Take the largest out of the momenta; the direction is the sign of what all sent."""
        lr = rate(state.x, gradients)
        momentum = self.beta * state.rows["momentum"]
        momentum = momentum + state.optimizer.rated(gradients.values, lr)
        merged, left = self._exchanged(momentum, comm)
        return merged.sign(), lr, {"momentum": left}

    def _exchanged(self, momentum: Tensor, comm: Communicator) -> tuple[Tensor, Tensor]:
        """What all sent of their momenta, merged, [d], and what is left of those here."""
        chunks = self._chunks(momentum.shape[1])
        sent = [self._largest(row, chunks) for row in momentum]
        payload = torch.cat([joined(values[None], where.short()[None]) for values, where in sent])
        total = momentum.new_zeros(sum(c.number * c.size for c in chunks))
        senders = torch.zeros_like(total)
        for each in in_order(payload, comm):
            values, where = self._read(each, chunks, momentum.dtype)
            total[where] += values
            senders[where] += 1
        number = senders.clamp(min=1) if self.merge == "contributors" else comm.n
        left = momentum.clone()
        for row, own in zip(left, payload.split(1), strict=True):
            values, where = self._read(own, chunks, momentum.dtype)
            row -= _decoded(torch.zeros_like(total).index_put((where,), values), chunks, row)
        return _decoded(total / number, chunks, momentum[0]), left

    def _chunks(self, d: int) -> "list[_Chunks]":
        found = matrices(self.optimizer().layers, d, vectors=True)
        return [_Chunks(m, _divisor(m.a, self.chunk), _divisor(m.b, self.chunk)) for m in found]

    def _largest(self, row: Tensor, chunks: "Sequence[_Chunks]") -> tuple[Tensor, Tensor]:
        """Values and their places in their chunks of what is sent of a row [d]."""
        values, where = [], []
        for c in chunks:
            spectrum = c.spectrum(row)
            own = largest(spectrum, c.kept(self.k))
            values.append(spectrum.gather(1, own).flatten())
            where.append(own.flatten())
        return torch.cat(values), torch.cat(where)

    def _read(
        self, payload: Tensor, chunks: "Sequence[_Chunks]", dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Values of a payload [1, bytes] and their places among all coefficients."""
        firsts, first = [], 0
        for c in chunks:
            starts = torch.arange(c.number, device=payload.device) * c.size + first
            firsts.append(starts.repeat_interleave(c.kept(self.k)))
            first += c.number * c.size
        offset = torch.cat(firsts)
        values, where = parted(payload, (dtype, len(offset)), (torch.int16, len(offset)))
        return values[0], where[0].long() + offset


class _Chunks(NamedTuple):
    """A matrix in chunks of height x width."""

    matrix: Matrix
    height: int
    width: int

    @property
    def size(self) -> int:
        """Numbers of a chunk."""
        return self.height * self.width

    @property
    def number(self) -> int:
        """Chunks."""
        return self.matrix.a * self.matrix.b // self.size

    def kept(self, k: int) -> int:
        """Coefficients of a chunk that are sent."""
        return min(k, self.size)

    def spectrum(self, row: Tensor) -> Tensor:
        """Coefficients of each chunk of a row [d], [number, size]."""
        m = self.matrix.of(row).unflatten(0, (-1, self.height)).unflatten(2, (-1, self.width))
        down, across = (cosines(side, row.dtype).to(row.device) for side in self[1:])
        return (down @ m.transpose(1, 2) @ across.T).reshape(self.number, self.size)

    def put(self, row: Tensor, spectrum: Tensor) -> None:
        """Give a row [d] the numbers that have these coefficients."""
        down, across = (cosines(side, row.dtype).to(row.device) for side in self[1:])
        m = (
            down.T
            @ spectrum.view(-1, self.matrix.b // self.width, self.height, self.width)
            @ across
        )
        self.matrix.put(row, m.transpose(1, 2).reshape(self.matrix.a, self.matrix.b))


def _decoded(coefficients: Tensor, chunks: Sequence[_Chunks], like: Tensor) -> Tensor:
    """The row [d] of all coefficients."""
    row = torch.empty_like(like)
    for c, own in zip(chunks, coefficients.split([c.number * c.size for c in chunks]), strict=True):
        c.put(row, own)
    return row


def _divisor(side: int, most: int) -> int:
    """The largest divisor up to a bound."""
    return next(k for k in range(min(side, most), 0, -1) if side % k == 0)
