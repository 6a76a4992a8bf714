"""From what users hand over to samples, in the numbers that the module computes with."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from skorch.dataset import Dataset
from torch import Tensor, nn
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Subset

from gossip.engines import ArraySamples, Items, parts
from gossip.errors import UserError
from gossip.task.samples import Samples

Encode = Callable[[np.ndarray], np.ndarray]
"""Targets as the user has them -> as the loss wants them; it goes to all workers."""


def class_numbers(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The place of each label among the classes, which are sorted.

    Raises:
        UserError: a label is none of them, in a data set whose targets are not the y given with it
            or in one that is held out.
    """
    places = np.searchsorted(classes, labels)
    is_known = classes.take(places, mode="clip") == labels
    if not is_known.all():
        unknown = np.unique(labels[~is_known]).tolist()
        raise UserError(
            f"a sample has the class {unknown[0]!r}, which is none of the {len(classes)} that y "
            "has: give a data set without y, or with the y that its items have"
        )
    return places


def is_dataset(x: Any) -> bool:
    """Whether it is a torch data set, of items (input, target)."""
    return isinstance(x, TorchDataset)


def first_item(dataset: Any) -> Any:
    """Item 0, by which shapes are known.

    Raises:
        UserError: there is none, or items have no number or no target.
    """
    if not hasattr(dataset, "__len__"):
        raise UserError(
            f"X is a {type(dataset).__name__} without length, whose items have no numbers: batches "
            "are drawn by number, give a data set with __len__ and __getitem__"
        )
    if not len(dataset):
        raise UserError(
            f"X is a {type(dataset).__name__} of 0 samples: there is nothing to learn from, give "
            "at least one"
        )
    item = dataset[0]
    if not (isinstance(item, tuple | list) and len(item) == 2):
        raise UserError(
            f"an item of X, a {type(dataset).__name__}, is a {type(item).__name__}: give a data "
            "set of pairs (input, target)"
        )
    return item


def samples_of(dataset: Any, encode: Encode | None = None) -> Samples:
    """The samples of a data set, or of a part of one that `train_split` has made."""
    if isinstance(dataset, Subset):
        whole = samples_of(dataset.dataset, encode)
        indices = np.asarray(dataset.indices, dtype=np.int64)
        if isinstance(whole, ArraySamples):
            return ArraySamples(whole.inputs[indices], whole.targets[indices])
        return Items(dataset, encode)
    if isinstance(dataset, Dataset):
        n = len(dataset.X)
        targets = np.zeros(n) if dataset.y is None else np.asarray(dataset.y)
        return ArraySamples(dataset.X, targets if encode is None else encode(targets))
    return Items(dataset, encode)


def in_order(dataset: Any, at_once: int) -> list[tuple[Any, Any]]:
    """All samples, so many at once, with the targets as the user has them."""
    samples = samples_of(dataset)
    numbers = parts(np.arange(len(samples)), at_once)
    if isinstance(samples, ArraySamples):
        return [(samples.inputs[part], samples.targets[part]) for part in numbers]
    return [samples.batch(part) for part in numbers]


def in_dtype(x: np.ndarray | Tensor, module: nn.Module) -> np.ndarray | Tensor:
    """Arrays in the floats of the module's weights; tensors stay as they are: token ids, say."""
    if isinstance(x, Tensor):
        return x
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    if dtype == torch.bfloat16:  # which NumPy does not know
        return torch.as_tensor(x.astype(np.float32)).to(dtype)
    return x.astype(torch.empty((), dtype=dtype).numpy().dtype, copy=False)


def all_targets(dataset: Any) -> np.ndarray:
    """The targets of a data set, item by item."""
    return np.asarray([np.asarray(dataset[k][1]) for k in range(len(dataset))])
