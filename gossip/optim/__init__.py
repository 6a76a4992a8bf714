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

__all__ = ["OPTIMIZERS", "FlatOptimizer", "Lamb", "Larc", "Lars", "Muon", "OptimizerKind"]


class OptimizerKind(NamedTuple):
    """How an optimizer is made and what it looks at."""

    make: Callable[..., torch.optim.Optimizer]
    """A torch.optim.Optimizer class, or a function like one."""
    elementwise: bool = True
    """Whether every element of a row is treated alike; if not, each layer is its own tensor."""
    defaults: Mapping[str, object] = MappingProxyType({})
    """Arguments that differ from the class's own defaults."""


OPTIMIZERS: dict[str, OptimizerKind] = {
    "sgd": OptimizerKind(torch.optim.SGD),
    "nesterov": OptimizerKind(torch.optim.SGD, defaults={"nesterov": True, "momentum": 0.9}),
    "adam": OptimizerKind(torch.optim.Adam),
    "adamw": OptimizerKind(torch.optim.AdamW, defaults={"weight_decay": 0.0}),
    "nadam": OptimizerKind(torch.optim.NAdam),
    "radam": OptimizerKind(torch.optim.RAdam),
    "adamax": OptimizerKind(torch.optim.Adamax),
    "rmsprop": OptimizerKind(torch.optim.RMSprop),
    "adagrad": OptimizerKind(torch.optim.Adagrad),
    "adadelta": OptimizerKind(torch.optim.Adadelta),
    "adafactor": OptimizerKind(torch.optim.Adafactor, elementwise=False),
    "lars": OptimizerKind(Lars, elementwise=False),
    "larc": OptimizerKind(Larc, elementwise=False),
    "lamb": OptimizerKind(Lamb, elementwise=False),
    "muon": OptimizerKind(Muon, elementwise=False),
}
"""What `--optimizer` offers. A new one is a line here."""
