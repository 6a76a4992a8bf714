"""A shared counter that every process adds to without waiting (MPI one-sided)."""

import numpy as np
from mpi4py import MPI

PAUSE = 1 << 40
"""Added by who wants to be noticed: more than anything that is counted."""


class Counter:
    """A sum in the memory of process 0, added to by one-sided messages (MPI-4.1, 12.3.4).

    Args:
        comm: whose processes; making and freeing the counter is collective.
    """

    def __init__(self, comm: MPI.Intracomm | None = None) -> None:
        comm = (comm or MPI.COMM_WORLD).Dup()
        self._window = MPI.Win.Allocate(8 if comm.rank == 0 else 0, 8, comm=comm)
        self._answer, self._comm = np.zeros(1, np.int64), comm
        self._window.Lock_all()
        self.set(0)

    def add(self, amount: int) -> int:
        """The sum with this amount added; `PAUSE` and more where some process wants a pause."""
        return self._operate(amount, MPI.SUM) + amount

    def set(self, total: int) -> None:
        """Begin at `total`, with no pause wanted. Collective: none may be adding."""
        self._comm.Barrier()
        if self._comm.rank == 0:
            self._operate(total, MPI.REPLACE)
        self._comm.Barrier()

    def free(self) -> None:
        """Give the memory back. Collective."""
        self._window.Unlock_all()
        self._window.Free()

    def _operate(self, amount: int, operation: MPI.Op) -> int:
        """The sum before the operation."""
        operand = np.array([amount], np.int64)
        self._window.Fetch_and_op(operand, self._answer, 0, 0, operation)
        self._window.Flush(0)
        return int(self._answer[0])
