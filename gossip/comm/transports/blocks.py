"""Learners in equal blocks on processes: the part that all transports share."""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Decode, Pending, Traffic
from gossip.comm.by_identity import ByIdentity
from gossip.comm.node import reduction, window
from gossip.comm.node.reduction import Reduction
from gossip.comm.node.shared_memory import shared_memory
from gossip.comm.node.window import Window
from gossip.comm.shutdown.overdue import Waiting
from gossip.comm.transports.combine import HALVES, decoded_mixture, mixture
from gossip.comm.transports.message_plan import MessagePlan, plan
from gossip.comm.transports.row_kind import SENT, RowKind, check_alike

KEPT = 4
"""Pieces of memory for arriving rows that wait for their next use."""
AVERAGE = "all processes in an average"
"""What a process waits for then."""
Finish = Callable[[], None]
"""Waits for messages that are under way."""


class StartedMix:
    """A mix that has been started."""

    def __init__(self, compute: Callable[[], Tensor]) -> None:
        self._compute = compute
        self._mixed: Tensor | None = None

    def complete(self) -> Tensor:
        """W X; waits for the parts of other processes."""
        if self._mixed is None:
            self._mixed = self._compute()
        return self._mixed


class Blocks(ABC):
    """n learners in equal blocks on the processes of a job.

    A row needed by several learners of one process travels to it once. Processes that share
    memory read it in place (`Window`); to others it is a message. Which way a row goes follows
    from W and from who is where, so one mix may use both.

    Args:
        n: number of learners.
        process: this process.
        processes: how many there are.
        place: the same for processes that see the same memory; None: none do.
        wire: dtype in which rows travel, between the hosted learners too, so that results do not
            depend on who hosts whom; a learner's own row counts in full, and sums are in the
            rows' dtype. None: that of the rows.
    """

    backend: str
    """Its name, as of every communicator."""
    sums_in_memory_from = 0
    """Bytes from which a sum over processes that all share memory is taken there (`Reduction`)."""

    def __init__(
        self,
        n: int,
        process: int,
        processes: int,
        *,
        place: Hashable = None,
        wire: torch.dtype | None = None,
    ) -> None:
        self.n, self.process, self.processes = n, process, processes
        self._local = n // processes
        assert self._local * processes == n, f"{n} learners on {processes} processes"
        self.hosted = range(process * self._local, (process + 1) * self._local)
        self.traffic = Traffic()
        self.waiting = Waiting()
        self._wire = wire
        places = self.share(place)
        self._shared = any(p is not None and places.count(p) > 1 for p in places)
        self._node = [p for p, other in enumerate(places) if other == place and place is not None]
        self._window: Window | None = None
        self._window_bytes = 0
        self._reduction: Reduction | None = None
        self._reduction_bytes = 0
        self._plan = ByIdentity(self._planned)
        self._under_way: list[StartedMix] = []
        self._idle: list[Tensor] = []
        self._known: set[RowKind] = set()
        self._has_warned = False

    @abstractmethod
    def share(self, value: Any) -> list[Any]:
        """Every process's value; see `Communicator.share`."""

    @abstractmethod
    def _exchange(self, plan: MessagePlan, rows: Tensor, arrivals: Tensor) -> Finish:
        """Start the messages of a plan.

        Args:
            plan: `far` and `sends` say what is received and sent.
            rows: hosted rows, [local, ...], not written to until the returned call has come back.
            arrivals: gets the far rows in their order, [len(far), ...].

        Returns:
            Waits for all of them.
        """

    @abstractmethod
    def _start_adding(self, total: Tensor) -> Finish:
        """Start to put the sum over all processes in the place of `total`, the same everywhere.

        Returns:
            Waits for it; `total` is neither read nor written to before.
        """

    def _add_up(self, total: Tensor) -> None:
        """Put the sum over all processes in the place of `total`, the same bits everywhere."""
        self._start_adding(total)()

    def _staged(self, x: Tensor) -> Tensor:
        """`x` where this transport reads it and rows are mixed: the host's memory."""
        if x.device.type != "cpu" and self.process == 0 and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"backend {self.backend} takes no GPU memory here: rows go through "
                "the host's, and are mixed there; --backend nccl would not need that",
                stacklevel=3,
            )
        return x.cpu()

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """Start X <- W X; see `Communicator.start_mix`."""
        assert x.is_contiguous(), "rows must be contiguous"
        assert len(x) == self._local, f"{len(x)} rows for {self._local} hosted learners"
        self._check_alike(SENT if decode else "mixed", x)
        own, wire = self._staged(x.detach()), x.dtype if decode else self._wire or x.dtype
        self._share_memory(x.nbytes)
        plan, shared = self._plan(w), self._window
        self.traffic.count_mix(plan.messages, x[0].numel() * wire.itemsize)
        if shared is None:
            number, rows = 0, own.to(wire)
        else:
            if not shared.is_free:
                self._complete()
            number, rows = shared.post(own, wire, plan.readers)
        arrivals = self._arrivals(plan, rows)
        finish = self._exchange(plan, rows, arrivals)

        def near(k: int) -> Tensor:
            assert shared is not None, "without one, no row is near"
            row = plan.near[k]
            with self._timed(plan.near_texts[k]):
                block = shared.rows(row.process, number, rows)
            return block[row.learner % self._local]

        def far() -> Tensor:
            with self._timed("messages"):
                finish()
            return arrivals

        def compute() -> Tensor:
            if decode is None:
                mixed = mixture(plan, own, rows, near, far)
            else:
                mixed = decoded_mixture(plan, own, near, far, decode)
            if shared is not None:
                shared.done(number)
            self._keep(arrivals)
            return mixed.to(x.device)

        mix = StartedMix(compute)
        self._under_way.append(mix)

        def pending() -> Tensor:
            self._complete(mix)
            return mix.complete()

        return pending

    def new_rows(self, like: Tensor) -> Tensor:
        """Rows that can be mixed without a copy; see `Communicator.new_rows`."""
        shared, travels = self._window, self._wire in (None, like.dtype)
        if shared is None or not travels or like.device.type != "cpu":
            return torch.empty_like(like)
        rows = shared.new_rows(like) if like.nbytes <= self._window_bytes else None
        return torch.empty_like(like) if rows is None else rows

    def mean(self, x: Tensor) -> Tensor:
        """Average over all learners; see `Communicator.mean`."""
        total = self._local_mean(x)
        with self._timed(AVERAGE):
            self._sum(total)
        return self._averaged(total, x[0])

    def start_mean(self, x: Tensor) -> Pending:
        """Start an average over all learners; see `Communicator.start_mean`.

        Never in shared memory, where nothing travels and whoever adds up has to be there.
        """
        total = self._local_mean(x)
        finish = self._start_adding(total)

        def pending() -> Tensor:
            with self._timed(AVERAGE):
                finish()
            return self._averaged(total, x[0])

        return pending

    def _local_mean(self, x: Tensor) -> Tensor:
        """Mean of the hosted rows where this transport adds up, flat, as precise as a sum asks."""
        self._check_alike("averaged", x)
        local = self._staged(x.detach().mean(dim=0))
        wide = local.float() if local.dtype in HALVES else local
        return wide.reshape(-1).contiguous()  # a view of the fresh `local`, never of x

    def _averaged(self, total: Tensor, like: Tensor) -> Tensor:
        """The average from the sum over the processes, which is its own from now on; counted."""
        self.traffic.count_mean(self.n, like.nbytes)
        total /= self.processes
        return total.view(like.shape).to(like.device, like.dtype)

    def patient(self) -> None:
        """Take sums in shared memory however small they are; see `Communicator.patient`."""
        self.sums_in_memory_from = 0

    def _check_alike(self, what: str, x: Tensor) -> None:
        """Check, at the first rows of each kind, that all processes have such; collective."""
        kind = RowKind(what, x.shape, x.dtype)
        if self.processes > 1 and kind not in self._known:
            self._complete()  # others may wait for this process to read their rows
            check_alike(kind, self.share)
            self._known.add(kind)

    def _complete(self, last: StartedMix | None = None) -> None:
        """Complete the mixes under way in their order, up to one of them: readers count by it."""
        while self._under_way if last is None else last in self._under_way:
            self._under_way.pop(0).complete()

    def _share_memory(self, num_bytes: int) -> None:
        """Have shared memory for hosted rows of so many bytes, where there can be; collective."""
        if not self._shared or num_bytes <= self._window_bytes:
            return
        self._complete()
        self._window_bytes = num_bytes
        memories = shared_memory(window.segment_bytes(num_bytes), self._node, self.share)
        if memories is None:
            self._window = None
        else:
            self._window = Window(memories, self.process, self.waiting)
        self._plan = ByIdentity(self._planned)

    def _sum(self, total: Tensor) -> None:
        """Put the sum over all processes in the place of `total`; collective."""
        large = total.nbytes >= self.sums_in_memory_from
        together = large and len(self._node) == self.processes > 1
        if together and total.nbytes > self._reduction_bytes:
            self._reduction_bytes = total.nbytes
            memories = shared_memory(reduction.segment_bytes(total.nbytes), self._node, self.share)
            self._reduction = None if memories is None else Reduction(memories, self.process)
        if together and self._reduction is not None:
            self._reduction.add_up(total)
        else:
            self._add_up(total)

    def _planned(self, w: csr_array) -> MessagePlan:
        """The plan of a matrix: whose rows this process reads, receives and sends."""
        near = [] if self._window is None else self._node
        return plan(w, self.hosted, self.process, near)

    def _arrivals(self, plan: MessagePlan, rows: Tensor) -> Tensor:
        """Memory for the far rows; as many live as mixes were in flight at once."""
        shape, like = (len(plan.far), *rows.shape[1:]), (rows.dtype, rows.device)
        fitting = (
            i
            for i, kept in enumerate(self._idle)
            if kept.shape == shape and (kept.dtype, kept.device) == like
        )
        found = next(fitting, None)
        return rows.new_empty(shape) if found is None else self._idle.pop(found)

    def _keep(self, arrivals: Tensor) -> None:
        """Use this memory again; a matrix that changes at every step has many shapes of it."""
        self._idle = [*self._idle, arrivals][-KEPT:]

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        """Around a wait for other processes."""
        start = time.perf_counter()
        with self.waiting(what):
            yield
        self.traffic.seconds_waiting += time.perf_counter() - start
