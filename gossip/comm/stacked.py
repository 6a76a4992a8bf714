"""All learners in one process: the reference the other backends are tested against."""

import time
from typing import Any

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Decode, Pending, Traffic, messages
from gossip.comm.by_identity import ByIdentity
from gossip.comm.product import product, rounded


class Stacked:
    """n learners as the rows of one matrix: mixing is the matrix product W X itself.

    Args:
        n: number of learners.
        wire: dtype to which rows are rounded for others, as if they travelled; None: they are not.
    """

    backend = "stacked"

    def __init__(self, n: int, wire: torch.dtype | None = None) -> None:
        self.n = n
        self.hosted = range(n)
        self.process = 0
        self.processes = 1
        self.traffic = Traffic()
        self._wire = wire
        self._prepared = ByIdentity(lambda w: (rounded(w, wire), product(w), messages(w)))

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """X <- W X, computed at once; see `Communicator.start_mix`."""
        assert x.is_contiguous(), "rows must be contiguous"
        assert len(x) == self.n, f"{len(x)} rows for {self.n} learners"
        multiply, exactly, sent = self._prepared(w)
        dtype = x.dtype if decode else self._wire or x.dtype
        self.traffic.count_mix(sent, x[0].numel() * dtype.itemsize)
        start = time.perf_counter()
        mixed = exactly(decode(x)) if decode else multiply(x)
        self.traffic.seconds_waiting += time.perf_counter() - start  # in place of the wait
        return lambda: mixed

    def new_rows(self, like: Tensor) -> Tensor:
        """Rows like any others; see `Communicator.new_rows`."""
        return torch.empty_like(like)

    def mean(self, x: Tensor) -> Tensor:
        """Average over the rows; see `Communicator.mean`."""
        self.traffic.count_mean(self.n, x[0].nbytes)
        return x.mean(dim=0)

    def start_mean(self, x: Tensor) -> Pending:
        """Average over the rows, computed at once; see `Communicator.start_mean`."""
        average = x.mean(dim=0)
        size = x[0].nbytes

        def pending() -> Tensor:
            self.traffic.count_mean(self.n, size)
            return average

        return pending

    def patient(self) -> None:
        """There is nobody to wait for; see `Communicator.patient`."""

    def gather(self, x: Tensor) -> Tensor:
        """The rows themselves; see `Communicator.gather`."""
        return x

    def share(self, value: Any) -> list[Any]:
        """This process's value alone; see `Communicator.share`."""
        return [value]

    def lost(self, error: BaseException) -> bool:
        """There is no other process; see `Communicator.lost`."""
        return False

    def survivors(self) -> None:
        """Nobody can be lost; see `Communicator.survivors`."""
