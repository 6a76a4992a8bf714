"""Models by name: builders (input_shape, num_classes, **options) -> torch.nn.Module."""

from collections.abc import Callable
from itertools import pairwise
from math import prod

import torch
from torch import nn

from gossip.errors import UserError, lookup

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
"""What `--activation` offers."""


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


def lenet(input_shape: tuple[int, ...], num_classes: int, *, activation: str = "relu") -> nn.Module:
    """LeNet-5 with max pooling: convolutions 6 and 16 of 5x5, then 120-84.

    Images smaller than 20 pixels (the 8x8 digits) are padded in the second convolution too.

    Raises:
        UserError: the inputs are no images, or of fewer than 4 pixels a side.

    Reference: LeCun et al., "Gradient-based learning applied to document recognition", 1998.
    """
    # Both poolings halve a side; of fewer than 4 pixels they leave nothing.
    if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < 4:
        raise UserError(
            "lenet needs images ([height, width] or [channels, height, width]) of at least 4 x 4 "
            f"pixels, got inputs of shape {list(input_shape)}"
        )
    *channels, height, width = input_shape
    act = lookup(ACTIVATIONS, activation, "activation")
    features = nn.Sequential(
        nn.Identity() if channels else nn.Unflatten(1, (1, height)),
        nn.Conv2d(channels[0] if channels else 1, 6, 5, padding=2),
        act(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, padding=0 if min(height, width) >= 20 else 2),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )
    size = features(torch.zeros(1, *input_shape)).shape[1]
    head = [nn.Linear(size, 120), act(), nn.Linear(120, 84), act(), nn.Linear(84, num_classes)]
    return nn.Sequential(*features, *head)


MODELS: dict[str, Callable[..., nn.Module]] = {"mlp": mlp, "lenet": lenet, "softmax": softmax}
"""What `--model` offers. A new model is a function above and its name here."""
