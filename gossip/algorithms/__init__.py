"""The table of algorithms: name -> what makes one."""

from collections.abc import Callable
from typing import NamedTuple

from gossip.algorithms.adpsgd import AdPsgd
from gossip.algorithms.base import Algorithm, Gradient, Rate, Startable, State, Step
from gossip.algorithms.dpsgd import Dpsgd, DpsgdAtc
from gossip.algorithms.ssgd import Ssgd
from gossip.algorithms.ssgd_star import NOISE_MODES, SsgdStar
from gossip.optim import FlatOptimizer

ORDERS = {"awc": Dpsgd, "atc": DpsgdAtc}
"""What `--order` offers for DPSGD."""


class Settings(NamedTuple):
    """Options of algorithms; each takes those it knows."""

    order: str
    noise_std: float
    noise_mode: str
    seed: int


Make = Callable[[], FlatOptimizer]

ALGORITHMS: dict[str, Callable[[Make, Settings], Algorithm]] = {
    "dpsgd": lambda optimizer, s: ORDERS[s.order](optimizer),
    "ssgd": lambda optimizer, s: Ssgd(optimizer),
    # Its pattern depends on its mode, so it is the instance's and not the class's.
    # pyrefly: ignore[bad-assignment]
    "ssgd-star": lambda optimizer, s: SsgdStar(optimizer, s.noise_std, s.noise_mode, s.seed),
}
"""What `--algorithm` offers. A new algorithm is a file like `dpsgd.py` and a line here."""

ASYNCHRONOUS: dict[str, Callable[[Make, Settings], AdPsgd]] = {
    "ad-psgd": lambda optimizer, s: AdPsgd(optimizer),
}
"""What `--algorithm` offers without a common step: `gossip.asynchronous` runs these."""

NAMES = (*ALGORITHMS, *ASYNCHRONOUS)

__all__ = [
    "ALGORITHMS",
    "ASYNCHRONOUS",
    "NAMES",
    "NOISE_MODES",
    "ORDERS",
    "AdPsgd",
    "Algorithm",
    "Dpsgd",
    "DpsgdAtc",
    "Gradient",
    "Rate",
    "Settings",
    "Ssgd",
    "SsgdStar",
    "Startable",
    "State",
    "Step",
]
