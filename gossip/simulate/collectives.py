"""Averages over all learners: stages of messages, and how long they take on a network."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossip.comm.costs import NOTHING, Sent
from gossip.errors import UserError, lookup
from gossip.simulate.network import Network


class CollectiveStage(NamedTuple):
    """Messages of equal length that leave together, and who receives them waits for them."""

    senders: NDArray[np.integer]
    receivers: NDArray[np.integer]
    bytes: float
    """Of each message."""
    times: int
    """How often, one after the other."""
    reduced: int
    """How many of these times what arrives is added to what is there."""


@dataclass(frozen=True)
class Cost:
    """An average over all learners."""

    seconds: float
    """From when the last learner comes to it until all have it."""
    sent: Sent
    handling: float = 0.0
    """Of these, those in which the busiest learner's processor is occupied with messages."""


Stages = Callable[[int, float, Network], Iterator[CollectiveStage]]
AllReduce = Callable[[int, float, Network], Cost]


def all_reduce(name: str, n: int, row_bytes: float, network: Network) -> Cost:
    """An average of rows of M bytes over n learners.

    Args:
        name: one of `ALL_REDUCES`.
        n: number of learners.
        row_bytes: M.
        network: where they are.

    Raises:
        UserError: no such all-reduce, or one that this network cannot have.
    """
    make = lookup(ALL_REDUCES, name, "all-reduce")
    return make(n, row_bytes, network) if n > 1 else Cost(0.0, NOTHING)


def staged(stages: Stages, n: int, row_bytes: float, network: Network) -> Cost:
    """Stages one after the other, each of which waits for its slowest message.

    Where links have jitter, m messages at once wait for the latest of them, H_m times its mean in
    expectation. No stage is shorter than what its messages cost the busiest processor.
    """
    seconds, sent, handling = 0.0, NOTHING, 0.0
    for stage in stages(n, row_bytes, network):
        arrival = network.seconds(stage.senders, stage.receivers, stage.bytes)
        late = network.jitter(stage.senders, stage.receivers).max() * _harmonic(len(arrival))
        work = 0.0
        if network.has_handling:
            work = float(network.handling(n, stage.senders, stage.receivers, stage.bytes).max())
        handling += stage.times * work
        seconds += stage.times * max(float(arrival.max()) + late, work)
        seconds += stage.reduced * stage.bytes * network.reduce
        messages = stage.times * len(stage.senders) / n
        sent += Sent(messages, messages * stage.bytes)
    return Cost(seconds, sent, handling)


def parameter_server(n: int, row_bytes: float, network: Network, servers: int = 1) -> Cost:
    """Rows go to servers that share them, and the average comes back: 2 alpha + 2 n M beta / s.

    The servers are machines of their own, on links like the learners'.
    """
    link = network.slowest(n)
    share = np.array([max(n / servers, 1.0)])
    into = link.seconds(row_bytes, np.array([1.0]), share, serial=False)
    back = link.seconds(row_bytes, share, np.array([1.0]), serial=False)
    late = 2 * link.jitter * _harmonic(n)
    work = link.work(row_bytes) * max(float(share[0]) / max(network.cores, 1.0), network.sharing)
    seconds = max(float(into[0]) + late / 2, work) + max(float(back[0]) + late / 2, work)
    return Cost(seconds, Sent(2.0, 2 * row_bytes), 2 * network.sharing * link.work(row_bytes))


PIECE = 2**20
"""Bytes of a piece of a pipeline, at most."""


def double_tree(n: int, row_bytes: float, network: Network) -> Cost:
    r"""Half of a row along each of two trees, in pieces: 2 ceil(log2 n) alpha + 2 M beta.

    A learner is a leaf of one tree and passes on in the other, so that all send and receive M
    upwards and M downwards at once; of the n learners of a tree n - 1 send, hence 2 (n - 1) / n M.
    The first piece's way is counted by its latency alone, alpha being L + 2 o with LogGP. Trees
    cross between hosts once, so that learners of a host do not share its interface.

    Reference: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast,
    reduction and scan", Parallel Computing 2009.
    """
    link, levels = network.slowest(n), (n - 1).bit_length()
    ways = 2 if link.duplex == "full" else 4
    beta = max(link.beta_up, link.beta_down)
    late = 2 * levels * link.jitter * _harmonic(n)
    pieces = max(1, math.ceil(row_bytes / PIECE))
    messages = 2 * pieces * (n - 1) / n
    work = 2 * messages * link.work(row_bytes / pieces) * network.sharing
    seconds = 2 * levels * (link.latency + 2 * link.overhead) + ways * row_bytes * beta + late
    seconds = max(seconds, work) + row_bytes * network.reduce
    return Cost(seconds, Sent(messages, messages * row_bytes / pieces), work)


def ring(n: int, row_bytes: float, network: Network) -> Iterator[CollectiveStage]:
    """2 (n - 1) rounds of pieces of M/n to the next learner, summed in the first half of them."""
    everyone = np.arange(n)
    yield CollectiveStage(everyone, (everyone + 1) % n, row_bytes / n, 2 * (n - 1), n - 1)


def recursive_doubling(n: int, row_bytes: float, network: Network) -> Iterator[CollectiveStage]:
    """log2 n exchanges of whole rows with the learner whose number differs in one bit."""
    bits = n.bit_length() - 1
    whole = 2**bits
    yield from _folded(n, whole, row_bytes, first=True)
    for bit in range(bits):
        yield _exchange(whole, 2**bit, row_bytes, 1, 1)
    yield from _folded(n, whole, row_bytes, first=False)


def halving_doubling(n: int, row_bytes: float, network: Network) -> Iterator[CollectiveStage]:
    """Exchanges of M/2, M/4, ..., summed, and back again (Rabenseifner)."""
    bits = n.bit_length() - 1
    whole = 2**bits
    yield from _folded(n, whole, row_bytes, first=True)
    for bit in range(bits):
        yield _exchange(whole, 2**bit, row_bytes / 2 ** (bit + 1), 2, 1)
    yield from _folded(n, whole, row_bytes, first=False)


def tree(n: int, row_bytes: float, network: Network) -> Iterator[CollectiveStage]:
    """Sums of whole rows along a binomial tree to learner 0, and back."""
    bits = range((n - 1).bit_length())
    for bit in bits:
        senders = np.arange(2**bit, n, 2 ** (bit + 1))
        yield CollectiveStage(senders, senders - 2**bit, row_bytes, 1, 1)
    for bit in reversed(bits):
        receivers = np.arange(2**bit, n, 2 ** (bit + 1))
        yield CollectiveStage(receivers - 2**bit, receivers, row_bytes, 1, 0)


def hierarchical(n: int, row_bytes: float, network: Network) -> Iterator[CollectiveStage]:
    """Rings within hosts that leave each learner a piece, rings of equal pieces between hosts.

    Raises:
        UserError: hosts with different numbers of learners.
    """
    p = network.learners_per_host
    if n % p:
        raise UserError(
            f"hierarchical all-reduce of {n} learners, {p} on a host: the last host would have "
            f"fewer; give a multiple of {p} learners"
        )
    hosts, everyone = n // p, np.arange(n)
    if p > 1:
        following = everyone // p * p + (everyone + 1) % p
        yield CollectiveStage(everyone, following, row_bytes / p, 2 * (p - 1), p - 1)
    if hosts > 1:
        yield CollectiveStage(
            everyone, (everyone + p) % n, row_bytes / n, 2 * (hosts - 1), hosts - 1
        )


def _exchange(n: int, distance: int, message: float, times: int, reduced: int) -> CollectiveStage:
    everyone = np.arange(n)
    return CollectiveStage(everyone, everyone ^ distance, message, times, reduced)


def _folded(n: int, whole: int, row_bytes: float, *, first: bool) -> Iterator[CollectiveStage]:
    """Learners beyond a power of two give their rows to others, and get the sum in the end."""
    if n > whole:
        extra = np.arange(whole, n)
        if first:
            yield CollectiveStage(extra, extra - whole, row_bytes, 1, 1)
        else:
            yield CollectiveStage(extra - whole, extra, row_bytes, 1, 0)


def _harmonic(m: int) -> float:
    """H_m = 1 + 1/2 + ... + 1/m: the mean of the largest of m Exp(1)."""
    return float((1 / np.arange(1, m + 1)).sum())


ALL_REDUCES: dict[str, AllReduce] = {
    "ring": partial(staged, ring),
    "recursive-doubling": partial(staged, recursive_doubling),
    "halving-doubling": partial(staged, halving_doubling),
    "tree": partial(staged, tree),
    "double-tree": double_tree,
    "parameter-server": parameter_server,
    "hierarchical": partial(staged, hierarchical),
}
"""What `--all-reduce` offers: (n, row_bytes, network) -> Cost, for n > 1."""
