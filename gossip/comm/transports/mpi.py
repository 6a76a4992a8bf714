"""Transport between processes over MPI."""

import ctypes
import time
from collections.abc import Hashable
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray
from torch import Tensor

from gossip.comm.startup.environment import may_go_on
from gossip.comm.startup.machine import machine
from gossip.comm.transports.blocks import Blocks, Finish
from gossip.comm.transports.message_plan import MessagePlan
from gossip.comm.transports.mpi_progress import Progress

POLL_SECONDS = 0.01
PROGRESS_BYTES = 4 << 20
"""Rows from this size on are sent in pieces, each of which waits for a call of MPI."""
LOST = {MPI.ERR_OTHER, MPI.ERR_INTERN, MPI.ERR_UNKNOWN, MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED}
"""Error classes of a lost connection; those of a wrong call say what is wrong with it."""

_sums: dict[int, Any] = {}
"""Memory of sums that are under way, whether or not anybody still waits for them: MPI writes to it,
and mpi4py does not keep what is summed in place."""


class Mpi(Blocks):
    """n learners in equal blocks on the processes of an MPI communicator.

    Messages need no step number: MPI matches messages of the same sender and tag in the order
    in which they were started, and the collective order of the calls is the same everywhere.

    Args:
        n: number of learners.
        comm: their processes; None: all of the job.
        before: what this was before a process was lost.
        place: as of `Blocks`; None: by host. A test may say that processes of one host are not.
        wire: as of `Blocks`.
        device: where the rows will be. GPUs' memory goes to MPI as it is if that can take it;
            else through the host's, where it is mixed, too.
    """

    backend = "mpi"
    sums_in_memory_from = 1 << 20
    """Below, MPI's own is faster, twice at 4 KB; from here on slower by 1.1 to 1.6 (2, 4, 16
    processes on 2 cores)."""

    def __init__(
        self,
        n: int,
        comm: MPI.Intracomm | None = None,
        before: "Mpi | None" = None,
        *,
        place: Hashable = None,
        wire: torch.dtype | None = None,
        device: str = "cpu",
    ) -> None:
        self._takes_gpu_memory = device.startswith("cuda") and takes_gpu_memory()
        self._device = device
        # Messages that will not come keep their requests and memory: MPI still writes to them.
        self._before = before
        self._in_flight: dict[int, list[MPI.Request]] = {}
        self._comm = (comm or MPI.COMM_WORLD).Dup()
        self._control = self._comm.Dup()  # a failing process leaves collectives of _comm unmatched
        # Shared memory does not tell that a process is gone, as a message does; and it is the
        # host's.
        apart = may_go_on() or self._takes_gpu_memory
        place = None if apart else machine() if place is None else place
        self._progress = Progress(self._control)
        super().__init__(n, self._comm.rank, self._comm.size, place=place, wire=wire)

    def _exchange(self, plan: MessagePlan, rows: Tensor, arrivals: Tensor) -> Finish:
        """Start the messages of a plan; see `Blocks`.

        Not as persistent requests: they save 4 to 11 microseconds at 4 KB, nothing measurable from
        64 KB on, and a matrix that changes at every step has no use for them.
        """
        if not plan.far and not plan.sends:
            return lambda: None
        settle(rows)
        first = self.hosted.start
        requests = [
            self._comm.Irecv([as_buffer(arrival), MPI.BYTE], source=process, tag=k)
            for arrival, (k, process) in zip(arrivals, plan.far, strict=True)
        ]
        requests += [
            self._comm.Isend([as_buffer(rows[k - first]), MPI.BYTE], dest=process, tag=k)
            for k, process in plan.sends
        ]
        self._in_flight[id(requests)] = requests
        if rows[0].nbytes >= PROGRESS_BYTES:
            self._progress.needed()

        def finish() -> None:
            # In turn, so that one which does not come is known. As fast as Waitall, after which
            # Open MPI cannot do without a lost process; Waitsome is 20 times slower in MPICH
            # where processes share cores.
            with self.waiting("messages") as wait:
                for request, wait.what in zip(requests, plan.far_texts, strict=True):
                    request.Wait()
            self._arrived(requests)

        return finish

    def _arrived(self, requests: list[MPI.Request]) -> None:
        """These are in flight no more."""
        del self._in_flight[id(requests)]
        if not self._in_flight:
            self._progress.over()

    def _staged(self, x: Tensor) -> Tensor:
        """`x` where MPI reads it and rows are mixed; see `Blocks`."""
        return x if x.is_cuda and self._takes_gpu_memory else super()._staged(x)

    def _start_adding(self, total: Tensor) -> Finish:
        """Start to sum over all processes; see `Blocks`.

        It has several rounds of messages, each of which waits for a call of MPI, however small.
        """
        settle(total)
        memory = total if total.is_cuda else total.numpy()
        requests = [self._comm.Iallreduce(MPI.IN_PLACE, memory, MPI.SUM)]
        self._in_flight[id(requests)] = requests
        _sums[id(requests)] = (requests, memory)
        if self.processes > 1:
            self._progress.needed()

        def finish() -> None:
            requests[0].Wait()
            del _sums[id(requests)]
            self._arrived(requests)

        return finish

    def _add_up(self, total: Tensor) -> None:
        """Sum over all processes, in place; see `Blocks`."""
        settle(total)
        # The standard (MPI-4.1, 6.9.6) requires the same result on all processes, to the bit.
        self._comm.Allreduce(MPI.IN_PLACE, total if total.is_cuda else total.numpy(), MPI.SUM)

    def gather(self, x: Tensor) -> Tensor:
        """All learners' rows; see `Communicator.gather`."""
        rows = self._staged(x.detach().contiguous())
        settle(rows)
        everyone = rows.new_empty(self.n, *rows.shape[1:])
        with self.waiting("the rows of all learners"):
            self._comm.Allgather([as_buffer(rows), MPI.BYTE], [as_buffer(everyone), MPI.BYTE])
        return everyone.to(x.device)

    def share(self, value: Any) -> list[Any]:
        """Every process's value; see `Communicator.share`."""
        with self.waiting("a word from every process"):
            return self._comm.allgather(value)

    def everyone_arrives(self, seconds: float) -> bool:
        """Whether all processes call this within about `seconds` of each other."""
        request = self._control.Ibarrier()
        deadline = time.monotonic() + seconds
        while not request.Test():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def abort(self, code: int) -> None:
        """End all processes of the job, now; mpirun's exit code is `code`."""
        MPI.COMM_WORLD.Abort(code)  # on a duplicate, MPICH loses the code

    def lost(self, error: BaseException) -> bool:
        """Whether `error` says that a process cannot be reached any more."""
        return isinstance(error, MPI.Exception) and error.Get_error_class() in LOST

    def survivors(self) -> "Mpi | None":
        """The learners of the processes that are left after an error that means `lost`.

        Collective among those: the one that noticed calls it, and by that the others get such an
        error in whatever they wait for. Learners are renumbered in their order, and n is smaller
        by those that are gone. Processes may be at different steps by then.

        Returns:
            None where the MPI cannot do it: only Open MPI can, started with --with-ft ulfm.
        """
        if not may_go_on():
            return None
        self._comm.Revoke()
        left = self._comm.Shrink()
        assert isinstance(left, MPI.Intracomm), "of the same kind as before"
        n = self._local * left.size
        return Mpi(n, left, before=self, wire=self._wire, device=self._device)


def takes_gpu_memory() -> bool:
    """Whether this MPI says that it is CUDA-aware.

    Open MPI and MPICH say so by the same extension of the standard, which others lack.
    """
    query = getattr(ctypes.CDLL(MPI.__file__), "MPIX_Query_cuda_support", None)
    return query is not None and query() == 1


def settle(x: Tensor) -> None:
    """Wait until what has been queued on a GPU is done: MPI knows nothing of streams.

    That is also whatever still reads the memory that the next rows arrive in.
    """
    if x.is_cuda:
        torch.cuda.current_stream(x.device).synchronize()


def as_buffer(x: Tensor) -> NDArray[np.uint8] | Tensor:
    """The memory of a contiguous tensor as MPI gets it, for any dtype."""
    flat = x.view(-1).view(torch.uint8)
    return flat if flat.is_cuda else flat.numpy()
