"""The layers of a model as columns of a flat row."""

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gossip.errors import UserError

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


def layers(model: nn.Module) -> Iterator[Layer]:
    """The parameters, in their order.

    Raises:
        UserError: there are none.
    """
    stop = 0
    for name, parameter in model.named_parameters():
        start, stop = stop, stop + prod(parameter.shape)
        yield Layer(name, start, stop, parameter.shape)
    if not stop:
        raise UserError(f"model {type(model).__name__} has no parameters: nothing to train")


def running_statistics(model: nn.Module) -> Iterator[Layer]:
    """Where the running means and variances of a model's BatchNorms are in a row of buffers."""
    stop = 0
    for prefix, module in model.named_modules():
        if isinstance(module, NORM) and module.track_running_stats:
            for name in ("running_mean", "running_var"):
                shape = getattr(module, name).shape
                start, stop = stop, stop + prod(shape)
                yield Layer(f"{prefix}.{name}".lstrip("."), start, stop, shape)


def refuse_dropout(model: nn.Module) -> None:
    """Refuse Dropout: a gradient would depend on more than (row, batch).

    Raises:
        UserError: there is some.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            raise UserError(
                f"model layer {name!r} ({type(module).__name__}) draws random numbers in each "
                "forward pass, which is not supported; set p=0"
            )
