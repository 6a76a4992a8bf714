"""Small convolutional nets: LeNet-5, and one made for many short runs on a CPU."""

import torch
from torch import nn

from gossip.errors import lookup
from gossip.models.inputs import ACTIVATIONS, image_shape, with_channels


def lenet(input_shape: tuple[int, ...], num_classes: int, *, activation: str = "relu") -> nn.Module:
    """LeNet-5 with max pooling: convolutions 6 and 16 of 5x5, then 120-84.

    Images smaller than 20 pixels (the 8x8 digits) are padded in the second convolution too.

    Raises:
        UserError: the inputs are no images, or of fewer than 4 pixels a side.

    Reference: LeCun et al., "Gradient-based learning applied to document recognition", 1998.
    """
    # Both poolings halve a side; of fewer than 4 pixels they leave nothing.
    channels, height, width = image_shape("lenet", input_shape)
    act = lookup(ACTIVATIONS, activation, "activation")
    features = nn.Sequential(
        with_channels(input_shape),
        nn.Conv2d(channels, 6, 5, padding=2),
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


def cnn(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    width: int = 8,
    hidden: int = 48,
    activation: str = "relu",
    batch_norm: bool = False,
) -> nn.Module:
    """A fast net for many short runs: strided convolutions instead of pooling, one hidden layer.

    On 28x28 images 39,546 parameters, at three to four times LeNet's samples per second on one core
    (batch 32): convolutions of stride 1 and pooling are what LeNet spends its time on.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels of the first convolution (5x5); the second (3x3) has twice as many.
        hidden: units of the hidden layer.
        activation: one of `ACTIVATIONS`.
        batch_norm: normalise after each convolution (the entry `cnn-bn`).

    Raises:
        UserError: the inputs are no images, or no such activation.
    """
    channels, height, breadth = image_shape("cnn", input_shape)
    act = lookup(ACTIVATIONS, activation, "activation")
    layers = [with_channels(input_shape)]
    for fan_in, fan_out, kernel in ((channels, width, 5), (width, 2 * width, 3)):
        layers.append(nn.Conv2d(fan_in, fan_out, kernel, stride=2, padding=kernel // 2))
        layers += [nn.BatchNorm2d(fan_out), act()] if batch_norm else [act()]
    # Each convolution halves a side, rounding up.
    size = 2 * width * -(-height // 4) * -(-breadth // 4)
    head = [nn.Linear(size, hidden), act(), nn.Linear(hidden, num_classes)]
    return nn.Sequential(*layers, nn.Flatten(), *head)
