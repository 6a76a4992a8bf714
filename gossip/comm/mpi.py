"""The learners of several processes, over MPI."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Pending, Traffic
from gossip.comm.overdue import Waiting
from gossip.comm.product import ByIdentity, Product, product
from gossip.comm.start import may_go_on

POLL_SECONDS = 0.01
LOST = {MPI.ERR_OTHER, MPI.ERR_INTERN, MPI.ERR_UNKNOWN, MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED}
"""Error classes of a lost connection; those of a wrong call say what is wrong with it."""


@dataclass(frozen=True)
class Plan:
    """What this process sends, receives and multiplies for one mixing matrix."""

    receives: list[tuple[int, int]]
    """(learner, process that hosts it): one row each, in the order that `mix_theirs` takes them."""
    sends: list[tuple[int, int]]
    """(hosted learner, process that needs its row)."""
    mix_own: Product
    """[local, d] -> [local, d]: the part of W X from the rows that are here."""
    mix_theirs: Product
    """[len(receives), d] -> [local, d]: the part from the rows that arrive."""
    messages: list[str]
    """How messages to the user name them, receives before sends."""


class Mpi:
    """n learners in equal blocks on the processes of an MPI communicator.

    A row needed by several learners of one process travels to it once, out of the sender's row
    and into one buffer, without packing. Rows of a GPU go through the host's memory.

    Messages need no step number: MPI matches messages of the same sender and tag in the order
    in which they were started, and the collective order of the calls is the same everywhere.
    """

    def __init__(
        self, n: int, comm: MPI.Intracomm | None = None, before: "Mpi | None" = None
    ) -> None:
        """The learners of a communicator; `before` is what it was before a process was lost."""
        # Messages that will not come keep their requests and memory: MPI still writes to them.
        self._before = before
        self._under_way: dict[int, list[MPI.Request]] = {}
        self._comm = (comm or MPI.COMM_WORLD).Dup()
        self._control = self._comm.Dup()  # a failing process leaves collectives of _comm unmatched
        self.n = n
        self.process = self._comm.rank
        self.processes = self._comm.size
        self._local = n // self.processes
        assert self._local * self.processes == n, f"{n} learners on {self.processes} processes"
        self.hosted = range(self.process * self._local, (self.process + 1) * self._local)
        self.traffic = Traffic()
        self.waiting = Waiting()
        self._plan = ByIdentity(self._planned)
        self._idle: list[NDArray[np.uint8]] = []

    def start_mix(self, x: Tensor, w: csr_array) -> Pending:
        """Start X <- W X; see `Communicator.start_mix`."""
        assert x.is_contiguous(), "rows must be contiguous"
        assert len(x) == self._local, f"{len(x)} rows for {self._local} hosted learners"
        self.traffic.count_mix(w, x[0].nbytes)
        plan = self._plan(w)
        rows = x.detach().cpu()
        row_bytes = rows[0].nbytes
        buffer = self._buffer(len(plan.receives) * row_bytes)
        arrivals = buffer[: len(plan.receives) * row_bytes].reshape(-1, row_bytes)
        requests = [
            self._comm.Irecv([arrival, MPI.BYTE], source=process, tag=learner)
            for arrival, (learner, process) in zip(arrivals, plan.receives, strict=True)
        ]
        departures = as_bytes(rows)
        requests += [
            self._comm.Isend([departures[k - self.hosted.start], MPI.BYTE], dest=process, tag=k)
            for k, process in plan.sends
        ]

        self._under_way[id(requests)] = requests

        def finish() -> Tensor:
            mixed = plan.mix_own(rows)  # before the wait: the messages may still be under way
            self._wait(requests, plan)
            del self._under_way[id(requests)]
            if plan.receives:
                received = torch.from_numpy(arrivals).view(rows.dtype).view(-1, *rows.shape[1:])
                mixed += plan.mix_theirs(received)
            self._idle.append(buffer)
            return mixed.to(x.device)

        return finish

    def mean(self, x: Tensor) -> Tensor:
        """Average over all learners; see `Communicator.mean`."""
        self.traffic.count_mean(self.n, x[0].nbytes)
        local = x.detach().mean(dim=0).cpu()
        wide = local.float() if local.dtype in (torch.bfloat16, torch.float16) else local
        total = wide.reshape(-1).contiguous()  # a view of the fresh `local`, never of x
        start = time.perf_counter()
        # The standard (MPI-4.1, 6.9.6) requires the same result on all processes, to the bit.
        with self.waiting("all processes in an average"):
            self._comm.Allreduce(MPI.IN_PLACE, total.numpy(), MPI.SUM)
        self.traffic.seconds_waiting += time.perf_counter() - start
        total /= self.processes
        return total.view(local.shape).to(x.device, x.dtype)

    def gather(self, x: Tensor) -> Tensor:
        """All learners' rows; see `Communicator.gather`."""
        rows = x.detach().cpu().contiguous()
        everyone = rows.new_empty(self.n, *rows.shape[1:])
        with self.waiting("the rows of all learners"):
            self._comm.Allgather([as_bytes(rows), MPI.BYTE], [as_bytes(everyone), MPI.BYTE])
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
        return Mpi(self._local * left.size, left, before=self)

    def _wait(self, requests: list[MPI.Request], plan: Plan) -> None:
        """Wait for the plan's messages in turn, so that one which does not come is known.

        As fast as Waitall, which tells nothing meanwhile, and after which Open MPI cannot do
        without a lost process. Waitsome is 20 times slower in MPICH where processes share cores.
        """
        start = time.perf_counter()
        with self.waiting("messages") as wait:
            for request, wait.what in zip(requests, plan.messages, strict=True):
                request.Wait()
        self.traffic.seconds_waiting += time.perf_counter() - start

    def _planned(self, w: Any) -> Plan:
        """Who sends what to whom; every process derives it from w, none has to be told."""
        here = w[self.hosted.start : self.hosted.stop]
        needed = np.unique(here.indices[here.data != 0])
        remote = needed[needed // self._local != self.process]
        edges = w.tocsc()[:, self.hosted.start : self.hosted.stop].tocoo()
        receivers = edges.row // self._local
        away = (edges.data != 0) & (receivers != self.process)
        pairs = np.unique(np.stack([edges.col[away], receivers[away]], axis=1), axis=0)
        columns = here.tocsc()
        receives = [(int(k), int(k) // self._local) for k in remote]
        sends = [(self.hosted.start + int(k), int(process)) for k, process in pairs]
        return Plan(
            receives=receives,
            sends=sends,
            mix_own=product(columns[:, self.hosted.start : self.hosted.stop].tocsr()),
            mix_theirs=product(columns[:, remote].tocsr()),
            messages=[f"the row of learner {k} (process {p})" for k, p in receives]
            + [f"process {p} to take the row of learner {k}" for k, p in sends],
        )

    def _buffer(self, num_bytes: int) -> NDArray[np.uint8]:
        """Memory for arriving rows; as many buffers live as mixes were in flight at once."""
        buffer = self._idle.pop() if self._idle else np.empty(0, np.uint8)
        return buffer if len(buffer) >= num_bytes else np.empty(num_bytes, np.uint8)


def as_bytes(x: Tensor) -> NDArray[np.uint8]:
    """The memory of a contiguous CPU tensor [rows, ...] as [rows, bytes per row], for any dtype."""
    return x.view(len(x), -1).view(torch.uint8).numpy()
