"""The layers of a model as columns of a flat row."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

NORM = nn.modules.batchnorm._NormBase
"""All of BatchNorm's kinds."""


class Layer(NamedTuple):
    """One parameter tensor: columns start..stop of a flat row."""

    name: str
    start: int
    stop: int
    shape: torch.Size


def layer_squares(rows: Tensor, layers: tuple[Layer, ...]) -> Tensor:
    """Squared norms of every row and layer of `rows` [rows, d]: float64 [rows, layers]."""
    norms = [
        torch.linalg.vector_norm(rows[:, layer.start : layer.stop], dim=1, dtype=torch.float64)
        for layer in layers
    ]
    return torch.stack(norms, dim=1).square()


def layers(parameters: Mapping[str, nn.Parameter]) -> Iterator[Layer]:
    """The parameters in their order, without those that have no numbers."""
    stop = 0
    for name, parameter in parameters.items():
        if parameter.numel():
            start, stop = stop, stop + parameter.numel()
            yield Layer(name, start, stop, parameter.shape)


def running_statistics(model: nn.Module) -> Iterator[Layer]:
    """Where the running means and variances of a model's BatchNorms are in a row of buffers."""
    stop = 0
    for prefix, module in model.named_modules():
        if isinstance(module, NORM) and module.track_running_stats:
            for name in ("running_mean", "running_var"):
                shape = getattr(module, name).shape
                start, stop = stop, stop + prod(shape)
                yield Layer(f"{prefix}.{name}".lstrip("."), start, stop, shape)
