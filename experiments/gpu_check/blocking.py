"""A communicator that hides nothing: a mix or an average ends before what follows it begins."""

from typing import Any, cast

from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator, Decode, Pending


class _Blocking:
    """Another communicator, but for `start_mix` and `start_mean`."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Any:
        """Forward every other attribute to the other communicator."""
        return getattr(self._comm, name)

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """X <- W X; on a GPU, whatever is queued after this call waits for it."""
        mixed = self._comm.start_mix(x, w, decode)()
        return lambda: mixed

    def start_mean(self, x: Tensor) -> Pending:
        """The average over all learners, in the same way."""
        mean = self._comm.start_mean(x)()
        return lambda: mean


def blocking(comm: Communicator) -> Communicator:
    """`comm` without overlap."""
    return cast("Communicator", _Blocking(comm))
