"""The messages that one mixing matrix needs, derived by every process alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from torch import Tensor

from gossip.comm.base import messages
from gossip.comm.product import MatrixProduct, product

FEW_TERMS = 8
"""Non-zeros per row up to which a sum of rows where they lie beats collecting them for a product;
a process with one learner gains nothing by collecting (16 terms of 2.7 MB: as fast)."""


class RemoteRow(NamedTuple):
    """A row that is needed here and hosted elsewhere."""

    learner: int
    process: int


class Term(NamedTuple):
    """A weight and the number of a row: hosted ones first, then `MessagePlan.needs`."""

    weight: float
    row: int


class Call(NamedTuple):
    """A message to start."""

    is_send: bool
    number: int
    """Position of a row in `MessagePlan.sends`, or else in `MessagePlan.far`."""


@dataclass(frozen=True)
class MessagePlan:
    """What a process sends, receives and adds up for one mixing matrix."""

    near: list[RemoteRow]
    """Rows of processes that share this one's memory ..."""
    far: list[RemoteRow]
    """... and of others, whose rows arrive as messages. Near and far are all that is needed."""
    readers: list[int]
    """Processes that read rows of this one in shared memory."""
    sends: list[RemoteRow]
    """(hosted learner, process that its row goes to)."""
    terms: list[list[Term]] | None
    """The sum of each hosted learner; None: by products."""
    convex: bool
    """Whether the weights of each of these sums are positive and come to 1."""
    diagonal: Callable[[torch.dtype, torch.device], Tensor]
    """The weight of each hosted learner's own row, [local, 1], made once for each kind of tensor:
    to a GPU it would be a copy that waits."""
    mix_own: MatrixProduct
    """[local, d] -> [local, d]: the part of W X from the other hosted rows."""
    mix_theirs: MatrixProduct
    """[len(near) + len(far), d] -> [local, d]: the part from elsewhere."""
    messages: float
    """Per learner, in the whole job."""
    near_texts: list[str]
    """How messages to the user name the near rows ..."""
    far_texts: list[str]
    """... the far rows, and then the sends."""
    calls: list[Call] = field(default_factory=list)
    """Order in which a transport starts the messages, if that matters to it."""


def plan(w: csr_array, hosted: range, process: int, node: Sequence[int]) -> MessagePlan:
    """The plan of one process.

    Args:
        w: mixing matrix, [n, n].
        hosted: learners of the process.
        process: which one it is.
        node: processes that share its memory.
    """
    local = len(hosted)
    here = w[hosted.start : hosted.stop]
    here.eliminate_zeros()
    here.sort_indices()
    needed = np.unique(here.indices)
    others = [RemoteRow(int(k), int(k) // local) for k in needed if int(k) // local != process]
    near = [row for row in others if row.process in node]
    far = [row for row in others if row.process not in node]
    edges = w.tocsc()[:, hosted.start : hosted.stop].tocoo()
    receivers = edges.row // local
    away = (edges.data != 0) & (receivers != process)
    pairs = np.unique(np.stack([edges.col[away], receivers[away]], axis=1), axis=0)
    out = [RemoteRow(hosted.start + int(k), int(p)) for k, p in pairs]
    sends = [row for row in out if row.process not in node]
    diagonal = here.diagonal(hosted.start)
    own = here.tocsc()[:, hosted.start : hosted.stop].tocsr()
    return MessagePlan(
        near=near,
        far=far,
        readers=sorted({row.process for row in out if row.process in node}),
        sends=sends,
        terms=_terms(here, hosted, [row.learner for row in (*near, *far)]),
        convex=_is_convex(here, diagonal),
        diagonal=cache(lambda dtype, device: _column(diagonal, dtype, device)),
        mix_own=product(csr_array(own - diags_array(diagonal))),
        mix_theirs=product(here.tocsc()[:, [row.learner for row in (*near, *far)]].tocsr()),
        messages=messages(w),
        near_texts=[_arrival(row) for row in near],
        far_texts=[_arrival(row) for row in far]
        + [f"process {p} to take the row of learner {k}" for k, p in sends],
    )


def _column(numbers: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.as_tensor(numbers, dtype=dtype, device=device).unsqueeze(1)


def _arrival(row: RemoteRow) -> str:
    return f"the row of learner {row.learner} (process {row.process})"


def _is_convex(here: csr_array, diagonal: np.ndarray) -> bool:
    sums = np.asarray(here.sum(axis=1))
    return bool(
        (here.data > 0).all() and (diagonal > 0).all() and np.allclose(sums, 1, rtol=0, atol=1e-12)
    )


def _terms(here: csr_array, hosted: range, others: list[int]) -> list[list[Term]] | None:
    """The sum of each hosted learner, in the order of learners.

    Where all have the same weights, they get the same bits.
    """
    if len(hosted) > 1 and here.nnz > FEW_TERMS * len(hosted):
        return None
    number = {learner: i for i, learner in enumerate((*hosted, *others))}
    sums = []
    for i in range(len(hosted)):
        part = slice(here.indptr[i], here.indptr[i + 1])
        terms = [
            Term(float(weight), number[int(k)])
            for weight, k in zip(here.data[part], here.indices[part], strict=True)
        ]
        sums.append(terms)
    return sums
