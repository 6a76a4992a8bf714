"""The monitor: effective rate, spread, noise and curvature, step by step."""

from gossip.monitor.base import Moment, Values, share_of
from gossip.monitor.columns import LEVELS, LIPSCHITZ, MEANINGS, METHOD, columns
from gossip.monitor.kept import names_of
from gossip.monitor.monitor import Monitor
from gossip.monitor.smoothness import GradientWindow
from gossip.monitor.sources import SOURCES

__all__ = [
    "LEVELS",
    "LIPSCHITZ",
    "MEANINGS",
    "METHOD",
    "SOURCES",
    "GradientWindow",
    "Moment",
    "Monitor",
    "Values",
    "columns",
    "names_of",
    "share_of",
]
