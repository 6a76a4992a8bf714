"""Learning rate = base x scaling x warm-up x decay x layer ratio, every part by name."""

from collections.abc import Callable

from gossip.rates import decay, scaling, warmup
from gossip.rates.adascale import adascale
from gossip.rates.base import (
    Budget,
    Controller,
    Length,
    Norms,
    Observation,
    RateContext,
    Rated,
    Rule,
    Span,
)
from gossip.rates.lena import lena
from gossip.rates.product import Product
from gossip.rates.ratio import LAYER_RATIOS, layer_ratio
from gossip.rates.variance import gradient_variance

SCALINGS: dict[str, Callable[..., scaling.Scaling]] = {
    "none": scaling.no_scaling,
    "linear": scaling.linear,
    "sqrt": scaling.square_root,
    "adascale": adascale,
    "lena": lena,
}
"""What `--scaling` offers: a function of the `RateContext` and of the options it names."""

WARMUPS: dict[str, Callable[..., warmup.Warmup]] = {
    "none": warmup.no_warmup,
    "fixed": warmup.fixed,
    "state-aware": warmup.state_aware,
    "legw": warmup.legw,
}
"""What `--warmup` offers."""

DECAYS: dict[str, Callable[..., decay.Decay]] = {
    "constant": decay.constant,
    "step": decay.step,
    "exponential": decay.exponential,
    "cosine": decay.cosine,
    "polynomial": decay.polynomial,
    "roller-coaster": decay.roller_coaster,
}
"""What `--decay` offers."""

__all__ = [
    "DECAYS",
    "LAYER_RATIOS",
    "SCALINGS",
    "WARMUPS",
    "Budget",
    "Controller",
    "Length",
    "Norms",
    "Observation",
    "Product",
    "RateContext",
    "Rated",
    "Rule",
    "Span",
    "gradient_variance",
    "layer_ratio",
]
