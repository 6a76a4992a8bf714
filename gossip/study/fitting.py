"""Whether a method can be run with this topology, optimizer and policy: from its properties."""

import math
from collections.abc import Iterator
from typing import Any

import networkx as nx

from gossip.algorithms.derived import graph_of
from gossip.algorithms.properties import Properties
from gossip.config import Config
from gossip.errors import UserError
from gossip.rates import Rule
from topologies import Topology
from topologies.check import steps
from topologies.spectrum import is_symmetric, least_eigenvalue

BORDER = 1e-9
"""An eigenvalue nearer than this to a bound lies on it."""


def check(
    name: str, algorithm: Any, config: Config, topology: Topology, rule: Rule, d: int
) -> None:
    """Refuse what `algorithm` cannot do.

    Args:
        name: of the algorithm.
        algorithm: as it would be run.
        config: with optimizer and policies.
        topology: of the run.
        rule: of its learning rate.
        d: numbers of the model.

    Raises:
        UserError: the first reason, and the way out.
    """
    if hasattr(algorithm, "check"):
        algorithm.check(d)
    wanted = algorithm.properties
    # With one model for all, W plays no part.
    of_run = _of_run(wanted, config, rule)
    for reason in of_run if algorithm.shared else _reasons(wanted, config, topology, rule):
        raise UserError(f"algorithm {name} {reason}")


def _reasons(wanted: Properties, config: Config, topology: Topology, rule: Rule) -> Iterator[str]:
    yield from _of_topology(wanted, config, topology)
    yield from _of_matrix(wanted, topology)
    yield from _of_run(wanted, config, rule)


def _of_topology(wanted: Properties, config: Config, topology: Topology) -> Iterator[str]:
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
    if wanted.static and (topology.period != 1 or config.gossip.mix_every > 1):
        what = f"topology {name}" if topology.period != 1 else "mix_every above 1"
        yield (
            f"needs the same W at every step, and {what} changes it; use --topology ring, torus "
            "or another that is static, with --mix-every 1"
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


def _of_run(wanted: Properties, config: Config, rule: Rule) -> Iterator[str]:
    rate = config.rate
    if wanted.own_momentum and (rate.optimizer != "sgd" or rate.momentum):
        given = rate.optimizer if rate.optimizer != "sgd" else f"momentum {rate.momentum:g}"
        yield (
            f"has a momentum of its own beside which {given} would be another; use --optimizer "
            "sgd without --momentum, and its option beta"
        )
    if wanted.one_rate and rule.per_layer:
        yield (
            "divides by the learning rate, which must be one for all layers; leave "
            "--layer-ratio, --scaling lena and --warmup state-aware away"
        )
    if not wanted.leaves_out and config.skips:
        how = "--amp fp16" if config.compute.scales_loss else "--on-nonfinite skip"
        yield (
            f"keeps gradients from step to step and cannot leave one out, as {how} would; use "
            "--on-nonfinite record, and no --amp fp16"
        )
    if not wanted.rounds and config.gossip.wire != "full":
        yield (
            f"keeps sums of what learners send exact, which --wire {config.gossip.wire} would "
            "round; use --wire full"
        )
