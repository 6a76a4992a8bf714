"""The exchange is timed alone, with no gradient to hide behind, against a copy of the same rows."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, cycle

import numpy as np
import torch
from torch import Tensor

import topologies
from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.raw import Messages
from experiments.bench.rows import Case, Label, Row, rows_of
from experiments.bench.size import Size, memory_bytes
from experiments.bench.variants import TOPOLOGIES, sent_by_mean, sent_by_mixing
from gossip.comm.base import Communicator
from gossip.comm.startup.environment import start_mpi

MEMCPY = "memcpy"
MIX, COPIED, MEAN = "start_mix, finished", "start_mix of rows elsewhere, finished", "mean"
BY_HAND, ALLREDUCE = "raw MPI messages", "raw MPI Allreduce"
IN_PLACE = "weighted sum of rows in own memory"
BYTES_PER_NUMBER = 4


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each size of a row, topology and, at last, the average over all."""
    from gossip.comm.transports.mpi import Mpi

    comm = meeting.comm
    for row_bytes in size.message_bytes:
        x = torch.randn(1, row_bytes // BYTES_PER_NUMBER)
        for name in TOPOLOGIES:
            topology = topologies.build(name, comm.n)
            sent = sent_by_mixing(name, comm.n)
            if not _fits((8 + 4 * sent) * row_bytes, size, meeting, f"{name}, {row_bytes:,} bytes"):
                continue
            gc.collect()  # the communicator of the case before, and its memory
            yield _case(size, meeting, name, x, mixing(Mpi(comm.n), topology, x), sent)
        yield _case(size, meeting, "mean", x, averaging(comm, x), sent_by_mean(comm.n))


def mixing(comm: Communicator, topology: topologies.Topology, x: Tensor) -> dict[str, Work]:
    """W x four ways; all learners have a process each, x is [1, d].

    `comm` is to be for this case alone: the rows of others would take up its shared memory.
    """
    me = comm.process
    senders = topology.neighbours_in(me, 0)
    weights = torch.tensor(np.asarray(topology.matrix(0)[[me]].todense())[0], dtype=x.dtype)
    source = x.repeat(len(senders) + 1, 1)
    messages = Messages(topology, x[0].clone())
    own = weights[[me, *senders.tolist()]]
    steps = count()
    return {
        MEMCPY: Work(partial(torch.empty_like(source).copy_, source)),
        MIX: Work(in_place(comm, topology, x)),
        COPIED: Work(lambda: comm.start_mix(x, topology.matrix(next(steps)))()),
        BY_HAND: Work(messages.exchange),
        IN_PLACE: Work(partial(torch.mv, source.T, own)),
    }


def in_place(comm: Communicator, topology: topologies.Topology, x: Tensor) -> Callable[[], Tensor]:
    """Mixes rows that lie where the communicator wants them, as those of an algorithm do.

    Two copies take turns: when one is mixed again, all have read what it was mixed for before.
    `comm` keeps them; it has room for those of one such call.
    """
    comm.start_mix(x, topology.matrix(0))()  # where processes share memory, there is some now
    copies = cycle([comm.new_rows(x).copy_(x) for _ in range(2)])
    steps = count()
    return lambda: comm.start_mix(next(copies), topology.matrix(next(steps)))()


def averaging(comm: Communicator, x: Tensor) -> dict[str, Work]:
    """The mean over all learners, against a copy of what a ring all-reduce sends."""
    world = start_mpi().COMM_WORLD
    source = x[0].repeat(2)[: round(sent_by_mean(comm.n) * x.shape[1])]
    total = x[0].clone()

    def allreduce() -> Tensor:
        world.Allreduce(x[0].numpy(), total.numpy())
        return total.mul_(1 / comm.n)

    return {
        MEMCPY: Work(partial(torch.empty_like(source).copy_, source)),
        MEAN: Work(partial(comm.mean, x)),
        ALLREDUCE: Work(allreduce),
    }


def _fits(row_bytes: float, size: Size, meeting: Meeting, what: str) -> bool:
    fits = meeting.comm.processes * row_bytes <= size.share_of_memory * memory_bytes()
    if not fits:
        meeting.say(f"left out for lack of memory: exchange, {what}")
    return fits


def _case(
    size: Size, meeting: Meeting, name: str, x: Tensor, works: dict[str, Work], sent: float
) -> list[Row]:
    n = meeting.comm.n
    case = Case(
        table="exchange",
        case=f"{name}, rows of {x.nbytes:,} bytes, {n} processes",
        processes=n,
        learners=n,
        d=x.shape[1],
    )
    meeting.say(f"exchange: {case.case}")
    times = interleaved(works, size.rounds, meeting, size.block_ms(n) / 4)
    labels = {key: Label(key, name, sent * x.nbytes) for key in works}
    return rows_of(case, times, MEMCPY, labels)
