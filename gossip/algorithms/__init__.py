"""Algorithms by name."""

from gossip.algorithms.base import Algorithm, Gradient, Rate, State, Step
from gossip.algorithms.dpsgd import Dpsgd, DpsgdAtc
from gossip.algorithms.ssgd import Ssgd
from gossip.algorithms.ssgd_star import NOISE_MODES, SsgdStar

ALGORITHMS = ("dpsgd", "ssgd", "ssgd-star")
"""What `--algorithm` offers; `gossip.study` makes them from a config."""

ORDERS = {"awc": Dpsgd, "atc": DpsgdAtc}
"""What `--order` offers for DPSGD."""

__all__ = [
    "ALGORITHMS",
    "NOISE_MODES",
    "ORDERS",
    "Algorithm",
    "Dpsgd",
    "DpsgdAtc",
    "Gradient",
    "Rate",
    "Ssgd",
    "SsgdStar",
    "State",
    "Step",
]
