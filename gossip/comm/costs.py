"""What a mixing and an average send, by formula: the one place, for counters and simulator."""

from typing import NamedTuple


class Sent(NamedTuple):
    """Sent by each of the learners, on average."""

    messages: float
    bytes: float

    def __add__(self, other: object) -> "Sent":
        if not isinstance(other, Sent):
            return NotImplemented
        return Sent(self.messages + other.messages, self.bytes + other.bytes)


NOTHING = Sent(0.0, 0.0)


def mix(messages: float, row_bytes: float) -> Sent:
    """One multiplication by W: a row of `row_bytes` along each edge.

    Args:
        messages: per learner, as `gossip.comm.base.messages` counts them.
        row_bytes: M, of one learner's row.
    """
    return Sent(messages, messages * row_bytes)


def mean(n: int, row_bytes: float) -> Sent:
    """One average over n learners as a ring all-reduce: 2 (n - 1) messages, 2 (n - 1)/n M bytes."""
    return Sent(2 * (n - 1), 2 * (n - 1) / n * row_bytes)


def pair(row_bytes: float) -> Sent:
    """For each gradient, where all average in pairs: a row as one asks, another as one is asked."""
    return Sent(2, 2 * row_bytes)
