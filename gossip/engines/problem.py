"""What is trained on what: the same object on every worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from gossip.task.samples import Samples


@dataclass(frozen=True, eq=False)
class ArraySamples:
    """Inputs [N, ...] and targets [N, ...] as arrays or tensors."""

    inputs: np.ndarray | Tensor
    targets: np.ndarray | Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """The samples of these numbers."""
        return torch.as_tensor(self.inputs[indices]), torch.as_tensor(self.targets[indices])


@dataclass(frozen=True, eq=False)
class Items:
    """A torch data set: items (input, target), collated as a DataLoader does."""

    dataset: Any
    encode: Callable[[np.ndarray], np.ndarray] | None = None
    """From targets as they are there to what the loss wants; None: they are that."""

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: np.ndarray) -> tuple[Any, Any]:
        """The samples of these numbers."""
        inputs, targets = default_collate([self.dataset[int(index)] for index in indices])
        if self.encode is not None:
            targets = torch.as_tensor(self.encode(np.asarray(targets)))
        return inputs, targets


@dataclass(frozen=True, eq=False)
class Problem:
    """A module, a loss and training samples.

    Its weights are those of the module when it was made; a call of an engine brings its own.
    """

    module: nn.Module
    loss: nn.Module
    """(outputs, targets) -> the mean over the samples."""
    samples: Samples
    device: str = "cpu"
