"""Networks: how long messages take between learners that sit on hosts, in racks, in regions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gossip.errors import UserError

CLASSES = ("host", "rack", "region", "world")
"""Classes of links, by the smallest thing that holds both ends: one host, one rack (between its
hosts), one region (between its racks), the world (between regions)."""
UNITS = ("learner", "host", "rack", "region")
"""Who may share the bandwidth of a class of links."""
SEGMENT = 1460.0
"""Bytes of a TCP segment."""
MATHIS = math.sqrt(1.5)


@dataclass(frozen=True, kw_only=True)
class Link:
    r"""One class of links: a message of M bytes takes alpha + M beta seconds.

    With LogGP (`overhead` or `gap` given) it takes L + 2 o + (M - 1) G, L being the latency and
    G = beta. Lost packets leave TCP at most MSS / RTT sqrt(3 / (2 p)) bytes a second, RTT being
    2 alpha. Beside that a message keeps the processor of each of its ends busy for o + M h seconds,
    in which it computes nothing (`Network.handling`).

    Raises:
        UserError: a number that no link can have, or an unknown `shared_by` or `duplex`.

    References: Hockney, "The communication challenge for MPP", 1994 (alpha and beta); Alexandrov
    et al., "LogGP", SPAA 1995; Mathis et al., "The macroscopic behavior of the TCP congestion
    avoidance algorithm", 1997 (loss).
    """

    latency: float
    """alpha, seconds."""
    up: float
    """Bytes per second that leave a `shared_by`."""
    down: float
    """Bytes per second that reach one."""
    shared_by: str = "host"
    """Whose learners have this bandwidth together: one of `UNITS`."""
    duplex: str = "full"
    """Whether `full` or `half` of what leaves and what arrives go at once."""
    jitter: float = 0.0
    """Mean of an exponential delay of each message, seconds."""
    loss: float = 0.0
    """Share of packets that is lost."""
    overhead: float = 0.0
    """o of LogGP: seconds that a message costs each of its ends."""
    gap: float = 0.0
    """g of LogGP: least seconds between two messages of a learner."""
    handling: float = 0.0
    """h: seconds of processor that a byte costs each of its ends."""

    def __post_init__(self) -> None:
        for name in ("latency", "jitter", "overhead", "gap"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name}={getattr(self, name)}: give seconds from 0 up")
        if not 0 <= self.handling < math.inf:
            raise UserError(f"handling={self.handling}: give seconds per byte from 0 up")
        for name in ("up", "down"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name}={getattr(self, name)}: a bandwidth is above 0")
        if not 0 <= self.loss < 1:
            raise UserError(f"loss={self.loss}: give the share of lost packets, from 0 to below 1")
        if self.shared_by not in UNITS:
            raise UserError(f"shared_by={self.shared_by}: it is one of {', '.join(UNITS)}")
        if self.duplex not in ("full", "half"):
            raise UserError(f"duplex={self.duplex}: it is full or half")

    @property
    def beta_up(self) -> float:
        """Seconds per byte that leaves."""
        return 1 / min(self.up, self._tcp())

    @property
    def beta_down(self) -> float:
        """Seconds per byte that arrives."""
        return 1 / min(self.down, self._tcp())

    def work(self, row_bytes: float) -> float:
        """Seconds of processor that a message of M bytes costs each of its ends, o + M h."""
        return self.overhead + row_bytes * self.handling

    def seconds(
        self, row_bytes: float, out: NDArray[np.float64], into: NDArray[np.float64], *, serial: bool
    ) -> NDArray[np.float64]:
        """Until messages of `row_bytes` are there, each with so many beside it on its two ends.

        Pipelined messages leave together and share the bandwidth, alpha + d M beta for d of them;
        serial ones wait for each other, d (alpha + M beta).

        Args:
            row_bytes: M.
            out: for each message, how many its sender's unit has under way.
            into: for each message, how many its receiver's unit has.
            serial: see above.
        """
        busiest = np.maximum(out, into)
        transfer = row_bytes * np.maximum(out * self.beta_up, into * self.beta_down)
        if not self.overhead and not self.gap:
            return self.latency * (busiest if serial else 1) + transfer
        whole = max(row_bytes - 1, 0) * max(self.beta_up, self.beta_down)
        one = self.latency + 2 * self.overhead + whole
        if serial:
            return busiest * one
        return one + (busiest - 1) * max(self.gap, self.overhead + whole)

    def _tcp(self) -> float:
        """Bytes per second that TCP reaches in spite of lost packets."""
        trip = 2 * self.latency
        if not self.loss or not trip:
            return math.inf
        return SEGMENT / trip * MATHIS / math.sqrt(self.loss)


@dataclass(frozen=True, kw_only=True)
class Network:
    """Where learners sit, 0, 1, ... in blocks, and the links between them.

    Messages of one class share the bandwidth of their unit; those of different classes do not
    slow each other, since what limits them lies in different places.

    Raises:
        UserError: a number that no network can have.
    """

    name: str
    links: Mapping[str, Link]
    """Class of `CLASSES` -> its link."""
    learners_per_host: int = 1
    hosts_per_rack: int = 0
    """0: all hosts are in one rack."""
    racks_per_region: int = 0
    """0: all racks are in one region."""
    reduce: float = 0.0
    """gamma, seconds to add a byte that has arrived."""
    serial: bool = False
    """Whether the messages that a learner has for its neighbours leave one after the other."""
    cores: float = 0.0
    """Processors of a host, which its learners share for sending and receiving; 0: each learner has
    one."""

    def __post_init__(self) -> None:
        for name, least in (
            ("learners_per_host", 1),
            ("hosts_per_rack", 0),
            ("racks_per_region", 0),
        ):
            if getattr(self, name) < least:
                raise UserError(f"{name}={getattr(self, name)}: it must be at least {least}")
        if not 0 <= self.reduce < math.inf:
            raise UserError(f"reduce={self.reduce}: give seconds per byte from 0 up")
        if not 0 <= self.cores < math.inf:
            raise UserError(f"cores={self.cores}: give the processors of a host, or 0 for enough")

    def units(self, unit: str, learners: NDArray[np.integer]) -> NDArray[np.integer]:
        """The number of the host, rack or region of each learner."""
        hosts = learners // self.learners_per_host
        racks = hosts // self.hosts_per_rack if self.hosts_per_rack else np.zeros_like(hosts)
        regions = racks // self.racks_per_region if self.racks_per_region else np.zeros_like(racks)
        return {"learner": learners, "host": hosts, "rack": racks, "region": regions}[unit]

    def classes(
        self, senders: NDArray[np.integer], receivers: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        """The class of each message as a place in `CLASSES`."""
        levels = [self.units(unit, senders) != self.units(unit, receivers) for unit in UNITS[1:]]
        return np.sum(levels, axis=0)

    def link(self, name: str) -> Link:
        """The link of a class.

        Raises:
            UserError: the network has none.
        """
        if name not in self.links:
            raise UserError(
                f"network {self.name} has learners that talk across a {name} link and says nothing "
                f"of it: add [links.{name}] to it, or place all learners so that none is needed"
            )
        return self.links[name]

    def slowest(self, n: int) -> Link:
        """The link of the widest class that n learners need."""
        ends = np.array([0]), np.array([n - 1])
        return self.link(CLASSES[int(self.classes(*ends)[0])])

    def seconds(
        self,
        senders: NDArray[np.integer],
        receivers: NDArray[np.integer],
        row_bytes: float,
        *,
        serial: bool | None = None,
    ) -> NDArray[np.float64]:
        """Until each of these messages is there, if all leave at once; without jitter.

        Args:
            senders: of each message, none of them its own receiver.
            receivers: of each message.
            row_bytes: M, of each message.
            serial: other than the network's own.
        """
        serial = self.serial if serial is None else serial
        classes, result = self.classes(senders, receivers), np.zeros(len(senders))
        for index in np.unique(classes):
            link, of_class = self.link(CLASSES[index]), classes == index
            out, into = _loads(
                self.units(link.shared_by, senders[of_class]),
                self.units(link.shared_by, receivers[of_class]),
                both_ways=link.duplex == "half",
            )
            result[of_class] = link.seconds(row_bytes, out, into, serial=serial)
        return result

    def handling(
        self,
        n: int,
        senders: NDArray[np.integer],
        receivers: NDArray[np.integer],
        row_bytes: float,
    ) -> NDArray[np.float64]:
        """Seconds in which these messages keep each of n learners from computing, [n].

        A message costs o + M h at each end. A learner uses one core at a time, and the cores of a
        host do the work of all its learners: max(own, that of the host / cores).
        """
        classes, own = self.classes(senders, receivers), np.zeros(n)
        for index in np.unique(classes):
            work = self.link(CLASSES[index]).work(row_bytes)
            for ends in (senders, receivers):
                own += work * np.bincount(ends[classes == index], minlength=n)
        if not self.cores:
            return own
        hosts = self.units("host", np.arange(n))
        return np.maximum(own, np.bincount(hosts, weights=own)[hosts] / self.cores)

    @property
    def sharing(self) -> float:
        """How many learners want a core of a full host, at least 1."""
        return max(1.0, self.learners_per_host / self.cores) if self.cores else 1.0

    @property
    def has_handling(self) -> bool:
        """Whether any link keeps processors busy."""
        return any(link.overhead or link.handling for link in self.links.values())

    def jitter(
        self, senders: NDArray[np.integer], receivers: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """The mean delay of each message beside `seconds`."""
        means = np.array([self.links[name].jitter if name in self.links else 0 for name in CLASSES])
        return means[self.classes(senders, receivers)]

    @property
    def has_jitter(self) -> bool:
        """Whether any link delays its messages at random."""
        return any(link.jitter for link in self.links.values())

    def between_hosts(self, latency: float, bandwidth: float) -> "Network":
        """The same with this latency and as many bytes per second on all links between hosts.

        Raises:
            UserError: there are none.
        """
        links = {
            name: replace(link, latency=latency, up=bandwidth, down=bandwidth)
            for name, link in self.links.items()
            if name != CLASSES[0]
        }
        if not links:
            raise UserError(
                f"network {self.name} has no links between hosts whose bandwidth and latency could "
                "be others: add [links.rack] to it"
            )
        return replace(self, links={**self.links, **links})

    def scaled(self, factor: float) -> "Network":
        """The same with `factor` times the bandwidth everywhere."""
        links = {
            name: replace(link, up=link.up * factor, down=link.down * factor)
            for name, link in self.links.items()
        }
        return replace(self, links=links)


def _loads(
    senders: NDArray[np.integer], receivers: NDArray[np.integer], *, both_ways: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each message, how many leave its sender's unit and how many reach its receiver's.

    Where a unit cannot send and receive at once, those of the other direction count too.
    """
    size = int(max(senders.max(), receivers.max())) + 1
    leave = np.bincount(senders, minlength=size).astype(np.float64)
    reach = np.bincount(receivers, minlength=size).astype(np.float64)
    if both_ways:
        leave = reach = leave + reach
    return leave[senders], reach[receivers]
