"""For every algorithm of the table: a topology and a rate that fit it, from its properties."""

from dataclasses import replace
from functools import cache
from typing import Any

from gossip.algorithms import ALGORITHMS, AlgorithmSettings
from gossip.algorithms.options import WithOptions
from gossip.algorithms.properties import Properties
from gossip.config import Config

PLAIN = AlgorithmSettings(order="awc", noise_std=0.1, noise_mode="eval", seed=0)

SHORT = {"every": "4", "fragments": "2", "delay": "1", "share": "0.5", "after": "2"}
"""Options that make something happen in a few steps; each method takes those it has."""


def nothing() -> Any:
    raise AssertionError("nothing is trained here")


@cache
def properties(name: str) -> Properties:
    return ALGORITHMS[name](nothing, PLAIN).properties


def topologies_of(name: str) -> tuple[str, ...]:
    """Topologies that fit: those that ask most of a method first."""
    asked = properties(name)
    if asked.tree:
        return ("chain", "star", "binary-tree")
    if asked.static and asked.symmetric:
        return ("ring", "torus", "complete")
    if asked.static:
        return ("ring", "exponential")
    if asked.columns == "any":
        return ("random-directed", "exponential", "one-peer-exponential", "matching")
    return ("matching", "one-peer-exponential", "ring")


def fitted(name: str, config: Config) -> Config:
    """`config` with the algorithm `name` in short rounds, and what that refuses put right."""
    asked, line = properties(name), ALGORITHMS[name]
    gossip, rate = config.gossip, config.rate
    own = line.options if isinstance(line, WithOptions) else []
    short = tuple(f"{key}={value}" for key, value in SHORT.items() if key in own)
    gossip = replace(gossip, algorithm_options=(*gossip.algorithm_options, *short))
    if asked.tree and gossip.topology not in topologies_of(name):
        gossip = replace(gossip, topology="chain")
    if asked.own_momentum:
        rate = replace(rate, momentum=None)
    return replace(config, algorithm=(name,), gossip=gossip, rate=rate)
