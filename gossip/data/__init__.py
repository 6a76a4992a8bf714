"""Datasets: where they are, which samples each learner draws, and how a batch is scaled."""

from gossip.data.batches import INPUT_SCALINGS, TARGET_SCALINGS, Split, Splits, splits
from gossip.data.dataset import CorruptDataError, Dataset, Scale, UnavailableError, from_arrays
from gossip.data.device import on_device
from gossip.data.partition import PARTITIONS
from gossip.data.registry import fetch, load
from gossip.data.sampling import Sampler
from gossip.data.sources import DATASETS

__all__ = [
    "DATASETS",
    "INPUT_SCALINGS",
    "PARTITIONS",
    "TARGET_SCALINGS",
    "CorruptDataError",
    "Dataset",
    "Sampler",
    "Scale",
    "Split",
    "Splits",
    "UnavailableError",
    "fetch",
    "from_arrays",
    "load",
    "on_device",
    "splits",
]
