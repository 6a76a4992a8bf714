"""Transport between processes on CPUs over torch.distributed (Gloo)."""

import atexit
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.startup.environment import CutOffError
from gossip.comm.startup.launchers import Launched, launched
from gossip.comm.startup.machine import machine
from gossip.comm.startup.rendezvous import MEETING_SECONDS, end_job, store
from gossip.comm.transports.blocks import Blocks, Finish
from gossip.comm.transports.edge_colouring import Edge, edges, rounds
from gossip.comm.transports.message_plan import Call, MessagePlan

POLL_SECONDS = 0.01
FOR_EVER = timedelta(days=365)
"""Time-out of a group: `gossip.comm.shutdown.overdue` ends the job when the user's own time-out has
passed, and says who waits for whom."""
TAGS = 64
"""Mixes after which tags come again: more than can be under way."""

_communicators, _starts = count(), count()
_living: "WeakSet[Gloo]" = WeakSet()
_default: list[Any] = []
"""The group of all processes, if it is ours."""


class LostConnectionError(RuntimeError):
    """Another process cannot be reached any more."""


class Gloo(Blocks):
    """n learners in equal blocks on the processes of a job, with torch's own transport for CPUs.

    Needs no MPI. A call that has no time-out of its own waits for the others without one.

    Args:
        n: number of learners.
        place: as of `Blocks`; None: by host. A test may say that processes of one host are not.
        wire: as of `Blocks`.
    """

    backend = "gloo"

    def __init__(self, n: int, *, place: Hashable = None, wire: torch.dtype | None = None) -> None:
        start_torch_distributed()
        self._group: Any = dist.new_group(backend="gloo", timeout=FOR_EVER)
        self._name = f"communicator {next(_communicators)}"
        self._arrivals_so_far = 0
        self._mixes = 0
        # Messages that will not come keep their memory: they may still be written to.
        self._in_flight: dict[int, tuple[Any, ...]] = {}
        _living.add(self)
        place = self._place() if place is None else place
        super().__init__(n, dist.get_rank(), dist.get_world_size(), place=place, wire=wire)

    def close(self) -> None:
        """Let go of torch.distributed; there are no more calls."""
        group, self._group = self._group, None
        destroy(group)

    def _place(self) -> Hashable:
        """Where this process is; see `Blocks`."""
        return machine()

    def _carrier(self, x: Tensor) -> Any:
        """The group of torch.distributed that sends such a tensor."""
        return self._group

    def _planned(self, w: csr_array) -> MessagePlan:
        """The messages of a matrix: whose rows this process reads, receives and sends."""
        plan = super()._planned(w)
        turn = rounds(edges(w, self._local)) if plan.far or plan.sends else {}
        calls = [
            (turn[Edge(process, self.process)], Call(False, i))
            for i, (_, process) in enumerate(plan.far)
        ] + [
            (turn[Edge(self.process, process)], Call(True, i))
            for i, (_, process) in enumerate(plan.sends)
        ]
        return replace(plan, calls=[call for _, call in sorted(calls)])

    def _exchange(self, plan: MessagePlan, rows: Tensor, arrivals: Tensor) -> Finish:
        """Start the messages of a plan, each with the tag of its row and mix; see `Blocks`."""
        self._mixes += 1
        base = self._mixes % TAGS * self.n
        # Receives first, none of which blocks. That one is ready is told to its sender over the
        # connection that our own rows take: behind a row it would come late, and the two rows of
        # a pair would travel one after the other.
        calls = sorted(plan.calls, key=lambda call: call.is_send)
        with as_lost_connection():
            works = [self._start(call, plan, rows, arrivals, base) for call in calls]
        self._in_flight[id(works)] = (works, rows, arrivals)

        def finish() -> None:
            with self.waiting("messages") as wait, as_lost_connection():
                for call, work in zip(calls, works, strict=True):
                    i = call.number + (len(plan.far) if call.is_send else 0)
                    wait.what = plan.far_texts[i]
                    work.wait()
            del self._in_flight[id(works)]

        return finish

    def _start(
        self, call: Call, plan: MessagePlan, rows: Tensor, arrivals: Tensor, base: int
    ) -> Any:
        """Start a message."""
        if call.is_send:
            k, process = plan.sends[call.number]
            row = as_bytes(rows[k - self.hosted.start])
            return dist.isend(row, process, group=self._group, tag=base + k)
        k, process = plan.far[call.number]
        row = as_bytes(arrivals[call.number])
        return dist.irecv(row, process, group=self._group, tag=base + k)

    def _start_adding(self, total: Tensor) -> Finish:
        """Start to sum over all processes; see `Blocks`."""
        # Gloo adds up each element in one process (a reduce-scatter, then an allgather), NCCL
        # promises identical results.
        with as_lost_connection():
            work: Any = dist.all_reduce(total, group=self._carrier(total), async_op=True)
        self._in_flight[id(work)] = (work, total)

        def finish() -> None:
            with as_lost_connection():
                self._wait(work)
            del self._in_flight[id(work)]

        return finish

    def gather(self, x: Tensor) -> Tensor:
        """All learners' rows; see `Communicator.gather`."""
        rows = self._staged(x.detach().contiguous())
        everyone = rows.new_empty(self.n, *rows.shape[1:])
        blocks = [as_bytes(block) for block in everyone.tensor_split(self.processes)]
        group = self._carrier(rows)
        with self.waiting("the rows of all learners"), as_lost_connection():
            self._wait(dist.all_gather(blocks, as_bytes(rows), group=group, async_op=True))
        return everyone.to(x.device)

    @staticmethod
    def _wait(work: Any) -> None:
        """Wait for a collective call.

        It was an asynchronous one: those of NCCL share a stream with the messages, in their order.
        """
        work.wait()

    def share(self, value: Any) -> list[Any]:
        """Every process's value; see `Communicator.share`."""
        told: list[Any] = [None] * dist.get_world_size()
        with self.waiting("a word from every process"), as_lost_connection():
            dist.all_gather_object(told, value, group=self._group)
        return told

    def everyone_arrives(self, seconds: float) -> bool:
        """Whether all processes call this within about `seconds` of each other."""
        self._arrivals_so_far += 1
        key = f"{self._name}, arrival {self._arrivals_so_far}"
        deadline = time.monotonic() + seconds
        try:
            store().add(key, 1)
            arrived = self._all_reach(key, deadline)
            store().add(f"{key} seen", 1)
            if arrived and self.process == 0:  # who may have the store leaves last
                self._all_reach(f"{key} seen", deadline)
        except RuntimeError:  # the store has gone, and its process with it
            return False
        return arrived

    def _all_reach(self, key: str, deadline: float) -> bool:
        """Whether all processes have added to a number of the store in time."""
        while store().add(key, 0) < self.processes:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def abort(self, code: int) -> None:
        """End all processes of the job, now; their exit code is `code`."""
        end_job(code)

    def lost(self, error: BaseException) -> bool:
        """Whether `error` says that a process cannot be reached any more."""
        return isinstance(error, LostConnectionError)

    def survivors(self) -> None:
        """torch.distributed cannot do without a lost process; see `Communicator.survivors`."""


def start_torch_distributed() -> None:
    """Let torch.distributed know the processes of this job, unless it does already. Collective.

    Raises:
        UserError: they do not find each other, within MEETING_SECONDS.
    """
    if dist.is_initialized():
        return
    how = launched() or Launched(0, 1)
    prefixed = dist.PrefixStore(f"torch.distributed {next(_starts)}", store())
    limit = timedelta(seconds=MEETING_SECONDS)
    try:
        dist.init_process_group(
            "gloo", store=prefixed, rank=how.rank, world_size=how.size, timeout=limit
        )
        _default[:] = [dist.group.WORLD]
    except RuntimeError as error:
        raise CutOffError(
            f"process {how.rank} of {how.size} cannot reach all others by Gloo: {error}; where "
            "hosts have several networks, GLOO_SOCKET_IFNAME names the interface to use"
        ) from error


@atexit.register  # now: so it is called behind all that others register, who may still talk
def _end() -> None:
    """Stop Gloo's threads before Python ends: one that needs Python then ends the process.

    They free what they have sent, which is Python's. A group stops them when nobody has it any
    more, whoever has a communicator. What the user's program has started, it ends itself.
    """
    for comm in list(_living):
        comm.close()
    if _default:
        destroy(_default.pop())


def destroy(group: Any) -> None:
    """Destroy a group of torch.distributed, unless the user's program has done so."""
    if dist.is_initialized():
        with suppress(ValueError):  # it is unknown
            dist.destroy_process_group(group)


@contextmanager
def as_lost_connection() -> Iterator[None]:
    """Around messages: what torch raises there means that another process has gone."""
    try:
        yield
    except RuntimeError as error:
        raise LostConnectionError(str(error)) from error


def as_bytes(x: Tensor) -> Tensor:
    """The memory of a contiguous tensor, for any dtype."""
    return x.view(-1).view(torch.uint8)
