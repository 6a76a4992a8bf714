"""The config of a run, from the command line, a TOML file or Python."""

from gossip.config.compute import Compute
from gossip.config.damping import BatchGrowth
from gossip.config.rate import Rate
from gossip.config.reliability import Reliability
from gossip.config.toml import from_tables, load, refuse_script, to_tables
from gossip.config.tree import (
    BATCH_NORMS,
    WIRES,
    Averaging,
    Config,
    Data,
    Model,
    Monitoring,
)

__all__ = [
    "BATCH_NORMS",
    "WIRES",
    "Averaging",
    "BatchGrowth",
    "Compute",
    "Config",
    "Data",
    "Model",
    "Monitoring",
    "Rate",
    "Reliability",
    "from_tables",
    "load",
    "refuse_script",
    "to_tables",
]
