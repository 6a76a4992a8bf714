"""Models without convolutions: they take inputs of any shape."""

from itertools import pairwise
from math import prod

from torch import nn

from gossip.errors import lookup
from gossip.models.inputs import ACTIVATIONS


def mlp(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    widths: tuple[int, ...] = (50, 50),
    activation: str = "relu",
) -> nn.Module:
    """Fully connected layers; on MNIST 784-50-50-10 by default, as in the DPSGD study."""
    act = lookup(ACTIVATIONS, activation, "activation")
    sizes = (prod(input_shape), *widths)
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), act()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], num_classes))


def softmax(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Softmax regression: one linear layer, a convex problem."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), num_classes))
