"""Who computes the gradient of a large batch: this process, or the workers of a Dask cluster.

A batch is cut into parts that depend on nothing but its size (`parts`), each part is one training
pass, and the parts' sums are added up (`gradient_sums`). So an update is a function of weights and
samples: the number of workers, and who computes what, changes it by rounding only.
"""

from gossip.engines.base import Engine, MicroBatch, parts, workers_for
from gossip.engines.connect import as_engine
from gossip.engines.here import Here
from gossip.engines.problem import ArraySamples, Items, Problem
from gossip.engines.sums import Sums, added, gradient_sums, loss_sums

__all__ = [
    "ArraySamples",
    "Engine",
    "Here",
    "Items",
    "MicroBatch",
    "Problem",
    "Sums",
    "added",
    "as_engine",
    "gradient_sums",
    "loss_sums",
    "parts",
    "workers_for",
]
