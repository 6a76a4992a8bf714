"""Sum over the processes of a host, computed in the memory that they share."""

import torch
from torch import Tensor

from gossip.comm.node.futex import Word, spins
from gossip.comm.node.shared_memory import PAGE, Memory, paged

WRITTEN, REDUCED, COPIED = 0, 64, 128
"""Byte offsets of the counters in the first page: one cache line each."""


class SumSegment:
    """A process's part of the memory, as its owner or another process sees it."""

    def __init__(self, memory: Memory) -> None:
        self.written, self.reduced, self.copied = (
            Word(memory, start) for start in (WRITTEN, REDUCED, COPIED)
        )
        """The last sum for which the owner has written its row, added up its slice of all rows,
        and copied the slices of all."""
        half = PAGE + (len(memory) - PAGE) // 2
        self._row, self._slice = memory[PAGE:half], memory[half:]

    def row(self, like: Tensor) -> Tensor:
        """The owner's row."""
        return torch.from_numpy(self._row[: like.nbytes]).view(like.dtype)

    def slice(self, like: Tensor) -> Tensor:
        """The owner's slice of the sum."""
        return torch.from_numpy(self._slice[: like.nbytes]).view(like.dtype)


class Reduction:
    """Sums of one vector per process, the same bits everywhere.

    Each process writes its row, adds up its slice of all rows in the order of processes, and
    copies the slices of the others. Against MPI's Allreduce, 16 processes on 2 cores: 1.4 times
    as fast for 4 and 40 MB, half as fast for 4 KB.

    Args:
        memories: `segment_bytes(num_bytes)` bytes of each process.
        me: which of them is this one.
    """

    def __init__(self, memories: dict[int, Memory], me: int) -> None:
        self._segments = [SumSegment(memories[process]) for process in sorted(memories)]
        self._me = sorted(memories).index(me)
        self._spins = spins(len(memories))
        self._number = 0

    def add_up(self, total: Tensor) -> None:
        """Put the sum over all processes in the place of `total`, [d]; collective."""
        self._number += 1
        everyone, own = self._segments, self._segments[self._me]
        parts = total.tensor_split(len(everyone))
        own.row(total).copy_(total)  # all rows of the last sum have been read: it was complete
        own.written.set(self._number)
        rows = [segment.row(total).tensor_split(len(everyone))[self._me] for segment in everyone]
        mine = own.slice(parts[self._me])
        for other in everyone:
            other.copied.wait(self._number - 1, self._spins)
        for segment, row in zip(everyone, rows, strict=True):
            segment.written.wait(self._number, self._spins)
            mine.copy_(row) if segment is everyone[0] else mine.add_(row)
        own.reduced.set(self._number)
        for k in range(len(everyone)):  # not all from the same process at once
            k = (self._me + k) % len(everyone)
            everyone[k].reduced.wait(self._number, self._spins)
            parts[k].copy_(everyone[k].slice(parts[k]))
        own.copied.set(self._number)


def segment_bytes(num_bytes: int) -> int:
    """Bytes of a segment for vectors of so many bytes."""
    return PAGE + 2 * paged(num_bytes)
