"""Whether a topology is one that a method can be run with: from the method's properties."""

import math
from collections.abc import Iterator
from typing import Any

import networkx as nx

from gossip.algorithms.derived import graph_of
from gossip.algorithms.pattern import averages
from gossip.algorithms.properties import Properties
from gossip.compress import OPERATORS
from topologies import Topology
from topologies.check import steps
from topologies.spectrum import is_symmetric, least_eigenvalue

BORDER = 1e-9
"""An eigenvalue nearer than this to a bound lies on it."""


def refusals(wanted: Properties, topology: Topology, mix_every: int = 1) -> Iterator[str]:
    """Why a method of these properties cannot be run with it, and the way out; none if it can."""
    yield from _of_sequence(wanted, topology, mix_every)
    yield from _of_matrix(wanted, topology)


def of_wire(algorithm: Any, wire: str) -> Iterator[str]:
    """Why rows of a method cannot travel so; where all learners have one model there are none."""
    if wire == "full":
        return
    if not algorithm.properties.rounds:
        yield (
            f"keeps sums of what learners send exact, which --wire {wire} would round; use --wire "
            "full"
        )
    elif not algorithm.shared and averages(algorithm.pattern):
        yield (
            f"averages over all learners by sums that are made on the way, where rows of --wire "
            f"{wire} cannot be added; use --wire full, or for rounds of fewer bytes --algorithm "
            f"sparseloco with its option compressor={wire if wire in OPERATORS else 'int8'}"
        )


def _of_sequence(wanted: Properties, topology: Topology, mix_every: int) -> Iterator[str]:
    name, keeps = topology.name, topology.preserves_mean
    if keeps == "never" and wanted.columns != "any":
        yield (
            f"cannot keep the mean on the directed graph {name}, whose columns do not sum to 1; "
            "use --algorithm sgp or push-diging, or a topology that is doubly stochastic"
        )
    if keeps == "expectation" and wanted.columns == "always":
        yield (
            f"needs a mean that every W(t) keeps, which topology {name} does on average only; "
            "use --topology matching or another that is doubly stochastic"
        )
    if wanted.static and (topology.period != 1 or mix_every > 1):
        what = f"topology {name}" if topology.period != 1 else "mix_every above 1"
        yield (
            f"needs the same W at every step, and {what} changes it; use --topology ring, torus "
            "or another that is static, with --mix-every 1"
        )
    if wanted.mixes_every > 1 < mix_every:
        both = math.lcm(wanted.mixes_every, mix_every)
        yield (
            f"mixes every {wanted.mixes_every} steps by its option every=, and with --mix-every "
            f"{mix_every} would only every {both}; use --mix-every 1"
        )
    period = topology.period or 1
    met = period // math.gcd(wanted.mixes_every, period)
    if met < period:
        yield (
            f"mixes every {wanted.mixes_every} steps, so of the {period} matrices of topology "
            f"{name} only {met} would ever be used; use an every= that has no divisor in common "
            "with them, or a topology that is static or random"
        )


def _of_matrix(wanted: Properties, topology: Topology) -> Iterator[str]:
    if wanted.tree and not nx.is_tree(graph_of(topology.matrix(0))):
        yield (
            f"needs a tree, and topology {topology.name} has a cycle; use --topology binary-tree, "
            "balanced-tree, chain or star"
        )
    if not wanted.symmetric:
        return
    for t in steps(topology):
        if not is_symmetric(topology.matrix(t)):
            yield (
                f"needs a symmetric W, and that of topology {topology.name} is directed; use "
                "--topology ring, torus or another undirected graph"
            )
    least = wanted.least_eigenvalue
    if least is not None and least_eigenvalue(topology.matrix(0)) <= least + BORDER:
        yield (
            f"diverges where the least eigenvalue of W is at most {least:.4g}, and topology "
            f"{topology.name} has {least_eigenvalue(topology.matrix(0)):.4g}; use its option "
            "lazy=auto, or --weights lazy"
        )
