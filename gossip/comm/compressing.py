r"""A communicator whose mixed rows travel as payloads of an operator."""

from functools import partial
from typing import Any, Protocol

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator, Decode, Pending, messages
from gossip.comm.by_identity import ByIdentity


class Packing(Protocol):
    """Rows as bytes and back: an operator of `gossip.compress`, which stands above this package."""

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Payloads [rows, bytes] of x [rows, d]; keys are of what is drawn, here nothing."""
        ...

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """C(x), [rows, d]."""
        ...


class Compressing:
    r"""Another communicator, but X becomes X + (W - I) C(X) where rows are mixed.

    So a learner takes from its own row what others take it for: the mean over learners stays what
    W makes it, whatever C leaves out, where W C(X) would lose it. Learners come as near to each
    other as C is precise, for nobody remembers what was left out. Payloads that a method makes
    itself travel as they are; averages are in full.

    Args:
        comm: whose messages these are.
        packing: C, which must draw nothing.
    """

    def __init__(self, comm: Communicator, packing: Packing) -> None:
        self._comm, self._packing = comm, packing
        self._messages = ByIdentity(messages)

    def __getattr__(self, name: str) -> Any:
        """All else is the other's."""
        if name.startswith("__") or name == "_comm":
            raise AttributeError(name)
        return getattr(self._comm, name)

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """Start X <- X + (W - I) C(X); see `Communicator.start_mix`."""
        if decode is not None or not self._messages(w):
            return self._comm.start_mix(x, w, decode)
        read = partial(self._packing.decode, d=x.shape[1], dtype=x.dtype)
        payload = self._packing.encode(x, torch.zeros(len(x), dtype=torch.int64))
        pending = self._comm.start_mix(payload, w, read)
        left_out = x - read(payload)
        return lambda: pending().add_(left_out)

    def new_rows(self, like: Tensor) -> Tensor:
        """Rows like any others: it is not they that are sent."""
        return torch.empty_like(like)

    def survivors(self) -> Communicator | None:
        """The learners that are left, compressing too; see `Communicator.survivors`."""
        left = self._comm.survivors()
        return None if left is None else compressing(left, self._packing)


def compressing(comm: Communicator, packing: Packing) -> Communicator:
    """`comm`, its mixed rows travelling as payloads."""
    made: Any = Compressing(comm, packing)
    return made
