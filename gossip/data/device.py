"""A split whose batches are on a device: from raw data that is there, or over the bus."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossip.data.batches import Split
from gossip.data.dataset import are_tokens

RESIDENT_BYTES = 2**30
"""Raw data up to this size is moved to a GPU as a whole: MNIST is 47 MB, CIFAR-10 154 MB."""


def on_device(split: Split, device: torch.device) -> "Split | Resident | Streamed":
    """The split itself on a CPU; else one that gives the same batches on `device`."""
    if device.type == "cpu":
        return split
    fits = split.inputs.nbytes <= RESIDENT_BYTES
    return resident(split, device) if fits else Streamed(split, device)


@dataclass(frozen=True, eq=False)
class Resident:
    """Raw samples on a device, of which each batch is scaled when it is drawn."""

    inputs: Tensor
    """[N, *shape]."""
    labels: Tensor
    """[N] or [N, T]."""
    shift: Tensor
    factor: Tensor
    dtype: torch.dtype
    tokens: bool

    def __len__(self) -> int:
        """Number of samples N."""
        return len(self.labels)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """The samples at indices [...]; see `Split.batch`, whose arithmetic this is."""
        chosen = torch.from_numpy(indices).to(self.labels.device)
        x, labels = self.inputs[chosen], self.labels[chosen]
        if self.tokens:
            return x.long(), labels
        return x.to(self.dtype).sub_(self.shift).div_(self.factor), labels


def resident(split: Split, device: torch.device) -> Resident:
    """Move the samples of a split, and no others of its data set, to a device."""
    inputs = split.inputs if split.where is None else split.inputs[split.where]
    # Copies first: the data set is read-only, which torch warns of.
    tensors = (torch.from_numpy(np.array(part, order="C")) for part in (inputs, split.labels))
    raw, labels = (tensor.to(device) for tensor in tensors)
    shift, factor = split.shift.to(device), split.factor.to(device)
    return Resident(raw, labels, shift, factor, split.dtype, are_tokens(split.inputs))


@dataclass(frozen=True, eq=False)
class Streamed:
    """Batches that are drawn and scaled by the host and copied over while it goes on."""

    split: Split
    device: torch.device

    def __len__(self) -> int:
        """Number of samples N."""
        return len(self.split)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """The samples at indices [...]; see `Split.batch`."""
        x, labels = (part.pin_memory() for part in self.split.batch(indices))
        return x.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
