"""Options of a wrapper, checked and the same on all processes."""

import inspect
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import topologies
from gossip.comm.base import Communicator
from gossip.comm.startup.together import agree
from gossip.errors import UserError


def topology_for(
    topology: str | topologies.Topology,
    n: int,
    options: Mapping[str, Any],
    weights: str | None,
    seed: int,
) -> topologies.Topology:
    """The topology of that name for n learners, or the one given.

    Args:
        topology: a name, file or module:function as `topologies.build` takes it, or one made.
        n: number of learners.
        options: of the topology's function.
        weights: the rule that makes W of a graph; None: the topology's own.
        seed: for a topology that draws random numbers; no other looks at it.

    Raises:
        UserError: there is none for so many learners.
    """
    if isinstance(topology, topologies.Topology):
        if topology.n != n:
            raise UserError(
                f"topology {topology.name} has {topology.n} learners, but there are {n}"
            )
        if options or weights:
            raise UserError(f"topology {topology.name} is made already: no options or weights")
        return topology
    given = dict(options) | ({"weights": weights} if weights else {})
    builder = topologies.TOPOLOGIES.get(topology)
    if builder is not None and "seed" in inspect.signature(builder).parameters:
        given.setdefault("seed", seed)
    try:
        return topologies.build(topology, n, **given)
    except topologies.TopologyError as error:
        raise UserError(str(error)) from error


def check_mix_every(mix_every: int) -> None:
    """Raises UserError for anything but 1, 2, 3, ..."""
    if not isinstance(mix_every, int) or mix_every < 1:
        raise UserError(f"mix_every={mix_every!r}: give 1 for every step, 2 for every other, ...")


def check_timeout(timeout: float) -> None:
    """Raises UserError for a negative number of seconds."""
    if not timeout >= 0:
        raise UserError(f"timeout={timeout!r}: give seconds, or 0 for never")


def agree_on_options(comm: Communicator, topology: topologies.Topology, **others: object) -> None:
    """Check that all learners mean the same averaging. Collective.

    Raises:
        UserError: they do not; the same text on every process.
    """
    w = topology.matrix(0)  # two random topologies of one name differ by their seeds
    digest = sha256(b"".join(part.tobytes() for part in (w.indptr, w.indices, w.data)))
    facts = {"topology": topology.name, "period": topology.period, "W(0)": digest.hexdigest()[:12]}
    agree(comm, {name: str(value) for name, value in (facts | others).items()})
