"""A learner whose neighbours only exist in its messages."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Traffic


class Scripted:
    """Learner 0 of n, whose neighbours always send c; it watches over what the wrapper must do.

    A row must be left alone, and its memory not be lost, until its mix has been waited for, and
    that once.
    """

    def __init__(self, n: int, c: float = 1.0) -> None:
        self.n, self.c = n, c
        self.hosted, self.process, self.processes = range(1), 0, 1
        self.backend = "scripted"
        self.traffic = Traffic()
        self.mixed: list[csr_array] = []
        self.under_way = 0

    def start_mix(self, x: Tensor, w: csr_array) -> Callable[[], Tensor]:
        assert x.is_contiguous()
        assert x.shape[0] == 1
        before, waited = x.clone(), []
        self.mixed.append(w)
        self.under_way += 1

        def finish() -> Tensor:
            assert not waited, "waited for twice"
            waited.append(True)
            self.under_way -= 1
            assert torch.equal(x, before), "written to while it was sent"
            own = float(w.toarray()[0, 0])
            return own * x + (1 - own) * self.c

        return finish

    def new_rows(self, like: Tensor) -> Tensor:
        return torch.empty_like(like)

    def mean(self, x: Tensor) -> Tensor:
        return x.mean(dim=0)

    def gather(self, x: Tensor) -> Tensor:
        return x.repeat(self.n, *[1] * (x.ndim - 1))

    def share(self, value):
        return [value]


def matrices(comm: Scripted) -> np.ndarray:
    """The W of all mixes since the broadcast, [mixes, n, n]."""
    return np.array([w.toarray() for w in comm.mixed if not (w.toarray()[:, 0] == 1).all()])
