"""Every topology by the name it has on the command line, and how a name becomes a topology."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

from topologies import base_graph, directed, equi, files, random_pairs, schedules, static
from topologies import matcha as matchings
from topologies.check import check
from topologies.custom import from_function, topology_of
from topologies.options import checked_options, option_names, suggestion
from topologies.topology import Topology, TopologyError, UnknownTopologyError


def periodic(
    n: int, *, every: int = 8, base: str = "none", seed: int = 0, **options: Any
) -> Topology:
    """W = J at every `every`-th step, else that of the topology `base` ('none': local SGD).

    `seed` goes to a base that draws random numbers; no other looks at it. Further options are
    those of the base.

    Raises:
        TopologyError: no such base, or the options do not fit it.
    """
    if base == "none":
        if options:
            raise TopologyError(
                f"periodic has no option {next(iter(options))!r} without a base: "
                "use every, base, and the options of the base"
            )
        return schedules.periodic(n, every, None)
    if base in TOPOLOGIES and "seed" in option_names(TOPOLOGIES[base]):
        options["seed"] = seed
    return schedules.periodic(n, every, _from_table(base, n, options))


def matcha(
    n: int, *, base: str = "ring", budget: float = 0.5, seed: int = 0, **options: Any
) -> Topology:
    """Random matchings of the graph `base`, a share `budget` of them active on average.

    Further options are those of the base.

    Raises:
        TopologyError: no such base, or it is no fixed undirected graph.
    """
    if base in TOPOLOGIES and "seed" in option_names(TOPOLOGIES[base]):
        options["seed"] = seed
    graph = _from_table(base, n, options).graph
    if graph is None:
        raise TopologyError(
            f"matcha: base {base!r} is no fixed undirected graph: use ring, torus or such a one"
        )
    return matchings.matcha(n, graph, budget=budget, seed=seed)


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "complete": static.complete,
    "ring": static.ring,
    "chain": static.chain,
    "star": static.star,
    "grid": static.grid,
    "torus": static.torus,
    "hypercube": static.hypercube,
    "exponential": static.exponential,
    "one-peer-exponential": schedules.one_peer_exponential,
    "matching": random_pairs.matching,
    "cycle": random_pairs.cycle,
    "ring-shuffle": random_pairs.ring_shuffle,
    "pull": random_pairs.pull,
    "base": base_graph.base,
    "equi-static-directed": equi.equi_static_directed,
    "equi-static": equi.equi_static,
    "equi-dynamic-directed": equi.equi_dynamic_directed,
    "equi-dynamic": equi.equi_dynamic,
    "random-regular": static.random_regular,
    "erdos-renyi": static.erdos_renyi,
    "small-world": static.small_world,
    "balanced-tree": static.balanced_tree,
    "binary-tree": static.binary_tree,
    "double-binary-tree": static.double_binary_tree,
    "karate": static.karate,
    "davis": static.davis,
    "florentine": static.florentine,
    "les-miserables": static.les_miserables,
    "random-directed": directed.random_directed,
    "matcha": matcha,
    "periodic": periodic,
}
"""What `--topology` offers: (n, **options) -> Topology. A new one is a function and a line here."""


def build(name_or_spec: str, n: int, **options: Any) -> Topology:
    """The checked topology for n learners behind a name, a file or a `module:function`.

    Options may be text, as on a command line; the builder's annotations say what they become.

    Raises:
        TopologyError: no such thing, an option it does not have, or a topology that cannot
            average; one sentence with what is allowed.

    Warns:
        TopologyWarning: a weight is negative.
    """
    try:
        n = operator.index(n)
    except TypeError:
        raise TopologyError(f"n must be a whole number of learners, got {n!r}") from None
    if n < 1:
        raise TopologyError(f"n must be at least 1 learner, got {n}")
    topology = _resolved(name_or_spec, n, options)
    if topology.n != n:
        raise TopologyError(
            f"{name_or_spec}: it has {topology.n} learners, got n={n}: use {topology.n}"
        )
    return check(topology)


def _resolved(name: str, n: int, options: dict[str, Any]) -> Topology:
    if name in TOPOLOGIES:
        return _from_table(name, n, options)
    path = Path(name)
    if path.suffix.lower() in files.READERS or path.is_file():
        return topology_of(path.name, files.read(path), **options)
    if ":" in name:
        return from_function(name, n, options)
    return _from_table(name, n, options)


def _from_table(name: str, n: int, options: dict[str, Any]) -> Topology:
    if name not in TOPOLOGIES:
        raise UnknownTopologyError(
            f"unknown topology {name!r}{suggestion(name, TOPOLOGIES)}: use one of "
            f"{', '.join(TOPOLOGIES)}, a file ({', '.join(files.READERS)}) or module:function"
        )
    builder = TOPOLOGIES[name]
    return builder(n, **checked_options(name, builder, options))
