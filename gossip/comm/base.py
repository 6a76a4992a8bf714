"""The communicator: all that an algorithm, a rate and a monitor may know of the other learners."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm import costs

Decode = Callable[[Tensor], Tensor]
"""Rows [rows, d] from their payloads [rows, bytes], at least one; the same bits of each row
wherever and with whichever others it is decoded."""
Pending = Callable[[], Tensor]
"""A started collective: calling it waits for it and gives its result.

Call it exactly once; of several that are under way, in the same order on all processes.
"""


@dataclass
class Traffic:
    """What has been sent and waited for so far; the loop reads differences of it.

    Bytes are counted per learner by the formulas of the algorithms, not by what one transport
    happens to put on a wire, so that every backend reports the same figure: a mixing step sends
    one row of M bytes along each edge, an average is a ring all-reduce of 2 (n - 1)/n M.
    """

    bytes_sent_per_learner: float = 0.0
    messages_per_learner: float = 0.0
    seconds_waiting: float = 0.0

    def count_mix(self, messages: float, row_bytes: int) -> None:
        """One multiplication by W that sends so many `messages` per learner."""
        self._count(costs.mix(messages, row_bytes))

    def count_mean(self, n: int, row_bytes: int) -> None:
        """One average over n learners, counted as a ring all-reduce."""
        self._count(costs.mean(n, row_bytes))

    def _count(self, sent: costs.Sent) -> None:
        self.messages_per_learner += sent.messages
        self.bytes_sent_per_learner += sent.bytes


def messages(w: csr_array) -> float:
    """Messages per learner of one multiplication: an off-diagonal W_jk != 0 is one from k to j."""
    return (w.nnz - int((w.diagonal() != 0).sum())) / w.shape[0]


class Communicator(Protocol):
    """The learners this process hosts, and its way to the others.

    Learners are numbered 0..n-1. A process hosts the block `hosted`; a tensor that goes in or
    out has the hosted learners as its first axis, [local, ...] with local = len(hosted). One
    process hosting all n, or n processes hosting one each, are the two ends of one scale.

    Every method is collective: all processes call it in the same order, with the same shapes.
    """

    backend: str
    """Its name, one of `gossip.comm.connect.BACKENDS`."""
    n: int
    hosted: range
    process: int
    processes: int
    traffic: Traffic

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """Start X <- W X; the returned call waits and gives the hosted rows, [local, d], new ones.

        With `decode` it is W decode(X): the rows x [local, bytes] uint8 are payloads, which travel
        as they are, and are counted so.

        Args:
            x: the hosted rows, [local, d], contiguous; must not be written to until the
                returned call has come back, and never if they are from `new_rows`. The
                communicator does not write to them.
            w: mixing matrix [n, n]; row j holds the weights that receiver j applies. The same
                on all processes. Message plans are cached by its identity.
            decode: what payloads stand for; None: x are the rows themselves.
        """
        ...

    def new_rows(self, like: Tensor) -> Tensor:
        """Rows of the shape and dtype of `like`, not yet written, for the next `start_mix`.

        Where processes share memory they are in it, if there is room, and are mixed without a
        copy; so they stay as they are from then on. For rows that are made anew at each step.
        """
        ...

    def mean(self, x: Tensor) -> Tensor:
        """Average over all n learners, [...], in the dtype of x and the same bits everywhere.

        Args:
            x: [rows, ...]: one row per hosted learner, or one row that stands for all of them
                (the synchronous algorithms keep a single row); the same number of rows in
                every process.
        """
        ...

    def start_mean(self, x: Tensor) -> Pending:
        """Start an average that travels while something else is computed; waited for, it is `mean`.

        The returned call gives [...], the same bits everywhere. Sums may be taken in another order
        than those of `mean`. `traffic` counts it when it has been waited for: one that a run
        starts again as it goes on from a checkpoint is one.

        Args:
            x: as of `mean`; must not be written to until the returned call has come back.
        """
        ...

    def patient(self) -> None:
        """From now on wait for averages asleep, where processes share memory, and do not look."""
        ...

    def gather(self, x: Tensor) -> Tensor:
        """All learners' rows, [n, ...], from [local, ...], on every process."""
        ...

    def share(self, value: Any) -> list[Any]:
        """Every process's small value (None, number, string, list, dict), in process order."""
        ...

    def lost(self, error: BaseException) -> bool:
        """Whether `error` says that a process cannot be reached any more."""
        ...

    def survivors(self) -> "Communicator | None":
        """The learners of the processes that are left after a `lost` error; None: it cannot be.

        Collective among those that are left, in the middle of whatever they were doing; they are
        numbered anew, in their order.
        """
        ...
