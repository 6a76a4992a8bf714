"""Optimizers by name, all of them torch's own."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from gossip.optim.flat import FlatOptimizer

__all__ = ["OPTIMIZERS", "FlatOptimizer", "Kind"]


class Kind(NamedTuple):
    """How an optimizer is made and what it looks at."""

    make: Callable[..., torch.optim.Optimizer]
    """A class of torch.optim, or a function like one."""
    elementwise: bool = True
    """Whether every element of a row is treated alike; if not, each layer is its own tensor."""
    defaults: Mapping[str, object] = MappingProxyType({})
    """Arguments that differ from torch's defaults."""


OPTIMIZERS: dict[str, Kind] = {
    "sgd": Kind(torch.optim.SGD),
    "nesterov": Kind(torch.optim.SGD, defaults={"nesterov": True, "momentum": 0.9}),
    "adam": Kind(torch.optim.Adam),
    "adamw": Kind(torch.optim.AdamW),
    "nadam": Kind(torch.optim.NAdam),
    "radam": Kind(torch.optim.RAdam),
    "adamax": Kind(torch.optim.Adamax),
    "rmsprop": Kind(torch.optim.RMSprop),
    "adagrad": Kind(torch.optim.Adagrad),
    "adadelta": Kind(torch.optim.Adadelta),
    "adafactor": Kind(torch.optim.Adafactor, elementwise=False),
}
"""What `--optimizer` offers. A new one is a line here."""
