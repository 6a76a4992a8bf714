"""For every algorithm of the table: a topology and a rate that fit it, from its properties."""

from dataclasses import replace
from typing import Any

from gossip.algorithms import ALGORITHMS, Settings
from gossip.algorithms.properties import Properties
from gossip.config import Config

PLAIN = Settings(order="awc", noise_std=0.1, noise_mode="eval", seed=0)


def nothing() -> Any:
    raise AssertionError("nothing is trained here")


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
    """`config` with the algorithm `name`, and what that refuses put right."""
    asked = properties(name)
    gossip, rate = config.gossip, config.rate
    if asked.tree and gossip.topology not in topologies_of(name):
        gossip = replace(gossip, topology="chain")
    if asked.own_momentum:
        rate = replace(rate, momentum=None)
    return replace(config, algorithm=(name,), gossip=gossip, rate=rate)
