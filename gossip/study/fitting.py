"""Whether a method can be run with this topology, optimizer and policy: from its properties."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from gossip.algorithms.pattern import sends_rows
from gossip.algorithms.properties import Properties
from gossip.algorithms.refusals import of_wire, refusals
from gossip.config import WIRES, Config
from gossip.damping import Damper
from gossip.errors import UserError
from gossip.rates import Rule
from topologies import Topology
from topologies.check import steps

SIGNED = ("sgd", "nesterov", "lars", "larc")
"""Optimizers that keep sums of gradients, which may have any sign, and no squares."""


OF_MEAN = frozenset({"gradient_square", "noise"})
"""What a damper can see of a step's mean gradient."""


def check(
    name: str,
    algorithm: Any,
    config: Config,
    topology: Topology,
    rule: Rule,
    damper: Damper | None,
    d: int,
) -> None:
    """Refuse what `algorithm` cannot do.

    Args:
        name: of the algorithm.
        algorithm: as it would be run.
        config: with optimizer and policies.
        topology: of the run.
        rule: of its learning rate.
        damper: of its batches, where they grow.
        d: numbers of the model.

    Raises:
        UserError: the first reason, and the way out.
    """
    if hasattr(algorithm, "check"):
        algorithm.check(d)
    wanted = algorithm.properties
    # With one model for all, W plays no part.
    of_topology = () if algorithm.shared else refusals(wanted, topology, config.gossip.mix_every)
    of_moments = _of_moments(config, topology) if _mixes_moments(algorithm) else ()
    of_rows = of_wire(algorithm, config.gossip.wire)
    for reason in chain(of_topology, _of_run(wanted, config, rule, damper), of_rows, of_moments):
        raise UserError(f"algorithm {name} {reason}")


def _mixes_moments(algorithm: Any) -> bool:
    """Whether what its optimizer keeps travels as rows that are mixed."""
    return algorithm.properties.shares_moments and sends_rows(algorithm.pattern)


def _of_moments(config: Config, topology: Topology) -> Iterator[str]:
    wire, optimizer = config.gossip.wire, config.rate.optimizer
    if optimizer in SIGNED:
        return
    if any((topology.matrix(t).data < 0).any() for t in steps(topology)):
        yield (
            f"averages what {optimizer} keeps, squares of gradients, which the negative weights of "
            f"topology {topology.name} might make negative; use --weights metropolis-hastings, "
            "another topology, or --optimizer sgd"
        )
    if wire not in WIRES:
        yield (
            f"averages what {optimizer} keeps, squares of gradients, which --wire {wire} might "
            "make negative; use --wire bf16 or full, or --optimizer sgd"
        )


def _of_run(wanted: Properties, config: Config, rule: Rule, damper: Damper | None) -> Iterator[str]:
    rate = config.rate
    if wanted.own_momentum and (rate.optimizer != "sgd" or rate.momentum):
        given = rate.optimizer if rate.optimizer != "sgd" else f"momentum {rate.momentum:g}"
        yield (
            f"has a momentum of its own beside which {given} would be another; use --optimizer "
            "sgd without --momentum, and its option beta"
        )
    if wanted.one_rate and rule.per_layer:
        yield (
            "reckons with the learning rate, which must be one for all layers; leave "
            "--layer-ratio, --scaling lena and --warmup state-aware away"
        )
    looks = rule.needs_norms or (damper is not None and damper.observes & OF_MEAN)
    if not wanted.exact_mean and looks:
        yield (
            "steps along an estimate of the mean gradient, whose error would count as noise of the "
            "gradients; leave --scaling adascale and lena, --warmup state-aware and --damping "
            "noise-scale and radadamp away, or use --algorithm ssgd"
        )
    if not wanted.leaves_out and config.skips:
        how = "--amp fp16" if config.compute.scales_loss else "--on-nonfinite skip"
        yield (
            f"keeps gradients from step to step and cannot leave one out, as {how} would; use "
            "--on-nonfinite record, and no --amp fp16"
        )
