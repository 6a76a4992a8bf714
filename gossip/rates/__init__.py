"""Learning-rate rules by name."""

from collections.abc import Callable

from gossip.rates.base import Controller, Observation, Rule
from gossip.rates.schedule import (
    Schedule,
    constant,
    cosine,
    exponential,
    fixed_warmup,
    no_warmup,
    step_decay,
)

WARMUPS: dict[str, Callable[..., Callable[[int], float]]] = {
    "none": no_warmup,
    "fixed": fixed_warmup,
}
"""What `--warmup` offers."""

DECAYS: dict[str, Callable[..., Callable[[float], float]]] = {
    "constant": constant,
    "step": step_decay,
    "exponential": exponential,
    "cosine": cosine,
}
"""What `--decay` offers."""

__all__ = ["DECAYS", "WARMUPS", "Controller", "Observation", "Rule", "Schedule"]
