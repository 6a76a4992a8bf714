"""From names to what is simulated: the tables of training, with a network and compute times."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from gossip.algorithms import pattern as phases
from gossip.algorithms.pattern import Pattern
from gossip.config import Config
from gossip.errors import UserError
from gossip.simulate import replay
from gossip.simulate.compute import ComputeTimes, Failures
from gossip.simulate.network import Network
from gossip.simulate.overlap import NO_OVERLAP, Overlap
from gossip.simulate.setting import MixingMatrices, Setting
from gossip.study import parts
from topologies.matrices import identity


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What the learners run on."""

    network: Network
    seconds: float
    """c, of one gradient."""
    slowness: tuple[float, ...] = ()
    """v_j of each learner's machine; empty: all alike."""
    step_times: Path | None = None
    """Run, or table [steps, n], of measured seconds, in the place of c and stragglers."""
    overlap: Overlap = NO_OVERLAP
    """Of gradients and the all-reduces right after them."""
    between_hosts: bool = False
    """Whether the learners of a host gossip as one."""
    fail_every: float = 0.0
    """Mean seconds between two failures of a learner; 0: none fails."""
    repair: float = 60.0
    """Seconds until it is back."""

    def compute(self, config: Config, *, share: float = 1.0) -> ComputeTimes:
        """Compute times of the config's learners, each with `share` of the work of c.

        Raises:
            UserError: as the straggler models, or numbers that do not fit the learners.
        """
        n, straggler, seconds = config.gossip.learners, parts.straggler(config), self.seconds
        if self.step_times is not None:
            straggler, seconds = replay.step_times(self.step_times, n), 1.0
        failures = Failures(self.fail_every, self.repair, config.seed) if self.fail_every else None
        slowness = np.array(self.slowness or (1.0,), dtype=np.float64)
        return ComputeTimes(n, seconds * share, straggler, slowness, failures)


def setting(
    name: str,
    config: Config,
    machines: Machines,
    row_bytes: float,
    *,
    all_reduce: str = "ring",
    share: float = 1.0,
) -> Setting:
    """What is simulated of an algorithm with the options of a run.

    Args:
        name: of `--algorithm`.
        config: its topology, order, stragglers, seed.
        machines: what the learners run on.
        row_bytes: M, of one learner's row.
        all_reduce: how averages over all learners are made.
        share: of the work of one gradient that each learner has.

    Raises:
        UserError: something is not there, or does not fit.
    """
    steps = parts.pattern(name, config)
    mixing, cycle = _nobody, 1
    if phases.mixes(steps):
        by_hosts = machines.between_hosts
        mixing, cycle = _mixing(_of_hosts(name, config, machines, steps) if by_hosts else config)
    return Setting(
        steps,
        mixing,
        machines.network,
        machines.compute(config, share=share),
        row_bytes,
        all_reduce,
        config.seed,
        machines.overlap,
        machines.between_hosts,
        math.lcm(cycle, phases.round_steps(steps)),
    )


def with_learners(config: Config, n: int, topology: str | None = None) -> Config:
    """The same with n learners, and perhaps another topology."""
    gossip = replace(config.gossip, learners=n, topology=topology or config.gossip.topology)
    return replace(config, gossip=gossip)


def _of_hosts(name: str, config: Config, machines: Machines, steps: Pattern) -> Config:
    """The same with a node of the topology for each host.

    Raises:
        UserError: the last host would have fewer learners, or learners wait for nobody.
    """
    n, p = config.gossip.learners, machines.network.learners_per_host
    if n % p:
        raise UserError(
            f"--between-hosts with {n} learners, {p} on a host: the last host would have fewer; "
            f"give a multiple of {p} learners"
        )
    if any(isinstance(phase, phases.Pairwise) for phase in steps):
        raise UserError(
            f"--between-hosts with {name}: its learners average in pairs whenever they have a "
            "gradient, so there is no moment for those of a host; leave one of the two away"
        )
    return with_learners(config, n // p)


def _mixing(config: Config) -> tuple[MixingMatrices, int]:
    """W(t), and the steps after which it repeats; of random ones, those of a mixing."""
    gossip = config.gossip
    topology = parts.topology(config, gossip.learners)
    cycle = gossip.mix_every * (topology.period or 1)
    if gossip.mix_every == 1:
        return topology.matrix, cycle
    alone, every = identity(gossip.learners), gossip.mix_every

    def mixing(t: int) -> csr_array:  # as `Study.mixing_matrix`, I in the place of None
        return alone if (t + 1) % every else topology.matrix(t // every)

    return mixing, cycle


def _nobody(t: int) -> csr_array:
    raise AssertionError("an algorithm that mixes nothing asked for W")
