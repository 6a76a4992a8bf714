"""Whether a method can be run with this topology, optimizer and policy: from its properties."""

from collections.abc import Iterator
from typing import Any

from gossip.algorithms.properties import Properties
from gossip.algorithms.refusals import refusals
from gossip.config import Config
from gossip.errors import UserError
from gossip.rates import Rule
from topologies import Topology


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
    yield from refusals(wanted, topology, config.gossip.mix_every)
    yield from _of_run(wanted, config, rule)


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
            "reckons with the learning rate, which must be one for all layers; leave "
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
