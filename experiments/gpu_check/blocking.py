"""A communicator that hides nothing: a mix ends before what follows it begins."""

from typing import Any, cast

from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator, Pending


class _Blocking:
    """Another communicator, but for `start_mix`."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Any:
        """Forward every other attribute to the other communicator."""
        return getattr(self._comm, name)

    def start_mix(self, x: Tensor, w: csr_array) -> Pending:
        """X <- W X; on a GPU, whatever is queued after this call waits for it."""
        mixed = self._comm.start_mix(x, w)()
        return lambda: mixed


def blocking(comm: Communicator) -> Communicator:
    """`comm` without overlap."""
    return cast("Communicator", _Blocking(comm))
