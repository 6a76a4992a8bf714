"""Variants of a training step that are compared, each with its memory and the bytes it sends."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import topologies
from experiments.bench.measure import Work
from experiments.bench.rows import Label
from experiments.bench.workload import Bench, Learner
from gossip.comm.base import Communicator, Traffic, messages
from gossip.config import Averaging, Config

TOPOLOGIES = ("ring", "one-peer-exponential", "complete")


@dataclass(frozen=True)
class Setting:
    """A process with one learner, and what all variants train."""

    config: Config
    comm: Communicator
    learner: Learner

    @classmethod
    def of(cls, config: Config, comm: Communicator) -> "Setting":
        """Everything from the config that the harness is given, too."""
        return cls(config, comm, Learner.of(Bench(config, comm)))

    def bench(self, topology: str = "ring", algorithm: str = "dpsgd") -> Bench:
        """The harness on another topology, with another algorithm."""
        gossip = Averaging(learners=self.comm.n, topology=topology)
        return Bench(replace(self.config, gossip=gossip, algorithm=(algorithm,)), self.comm)

    def topology(self, name: str) -> topologies.Topology:
        """One for all learners."""
        return topologies.build(name, self.comm.n)


@dataclass(frozen=True)
class Variant:
    """One way to make a training step; it is built when its turn comes, and torn down after."""

    name: str
    topology: str
    make: Callable[[Setting], Work]
    copies: float
    """Rows of d numbers that it keeps at once, roughly: weights, gradient, momentum, buffers."""
    bytes_per_row_byte: float = 0.0
    """Bytes it sends per step and learner, in units of a row's."""

    @property
    def key(self) -> str:
        """Unique among the variants."""
        return f"{self.name}, {self.topology}" if self.topology != "-" else self.name

    def label(self, row_bytes: int) -> Label:
        """The cells of its row besides the times."""
        return Label(self.name, self.topology, self.bytes_per_row_byte * row_bytes)


def sent_by_mixing(topology: str, n: int) -> float:
    """Rows that a learner sends in a mixing step, by the formula of all backends."""
    return messages(topologies.build(topology, n).matrix(0))


def sent_by_mean(n: int) -> float:
    """Rows that a learner sends in an average, counted as a ring all-reduce."""
    traffic = Traffic()
    traffic.count_mean(n, 1)
    return traffic.bytes_sent_per_learner
