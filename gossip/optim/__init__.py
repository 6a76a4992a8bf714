"""Optimizers by name: torch's own, and those for large batches that it lacks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from gossip.optim.flat import FlatOptimizer
from gossip.optim.lamb import Lamb
from gossip.optim.larc import Larc
from gossip.optim.lars import Lars
from gossip.optim.muon import Muon

__all__ = ["OPTIMIZERS", "FlatOptimizer", "Kind", "Lamb", "Larc", "Lars", "Muon"]


class Kind(NamedTuple):
    """How an optimizer is made and what it looks at."""

    make: Callable[..., torch.optim.Optimizer]
    """A torch.optim.Optimizer class, or a function like one."""
    elementwise: bool = True
    """Whether every element of a row is treated alike; if not, each layer is its own tensor."""
    defaults: Mapping[str, object] = MappingProxyType({})
    """Arguments that differ from the class's own defaults."""


OPTIMIZERS: dict[str, Kind] = {
    "sgd": Kind(torch.optim.SGD),
    "nesterov": Kind(torch.optim.SGD, defaults={"nesterov": True, "momentum": 0.9}),
    "adam": Kind(torch.optim.Adam),
    "adamw": Kind(torch.optim.AdamW, defaults={"weight_decay": 0.0}),
    "nadam": Kind(torch.optim.NAdam),
    "radam": Kind(torch.optim.RAdam),
    "adamax": Kind(torch.optim.Adamax),
    "rmsprop": Kind(torch.optim.RMSprop),
    "adagrad": Kind(torch.optim.Adagrad),
    "adadelta": Kind(torch.optim.Adadelta),
    "adafactor": Kind(torch.optim.Adafactor, elementwise=False),
    "lars": Kind(Lars, elementwise=False),
    "larc": Kind(Larc, elementwise=False),
    "lamb": Kind(Lamb, elementwise=False),
    "muon": Kind(Muon, elementwise=False),
}
"""What `--optimizer` offers. A new one is a line here."""
