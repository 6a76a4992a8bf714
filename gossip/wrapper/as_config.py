"""What is known of a script's loop, in the words of a config: config.toml of its run folder."""

from collections.abc import Mapping
from typing import Any

import torch

from gossip.wrapper.module import Gossip

DTYPES = {torch.float32: "float32", torch.float64: "float64"}


def as_config(
    model: Gossip, level: str | None, every: int, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """The tables of a config, as far as a wrapped module tells them.

    Args:
        model: that is recorded.
        level: of the monitor, one of `gossip.monitor.LEVELS`; None: it has none.
        every: steps from one measurement to the next.
        facts: what ran where, for the table `record`.
    """
    exchange, dtype = model._exchange, model._exchange.weights.like[0].dtype
    return {
        "algorithm": model._algorithm,
        "gossip": {
            "learners": model.comm.n,
            "topology": exchange.topology.name,
            **_of_the_method(model),
        },
        **({"model": {"dtype": DTYPES[dtype]}} if dtype in DTYPES else {}),
        "monitoring": {**({"monitor": level} if level else {}), "monitor_every": every},
        "record": {**facts, "script": True, "module": type(model.module).__name__},
    }


def _of_the_method(model: Gossip) -> dict[str, Any]:
    """The order of averaging, which is dpsgd's, or another method's options."""
    if model._algorithm != "dpsgd":
        return {"algorithm_options": [f"{k}={v}" for k, v in model._options.items()]}
    order = "atc" if model._rounds.order.collective_end else "awc"
    return {"order": order, "mix_every": model._exchange.mix_every}
