"""The deep convolutional nets before residuals, sized for 28x28 and 32x32 images.

Their layers start as He et al. say ("Delving deep into rectifiers", 2015). In PyTorch's default
each layer shrinks what it passes on, and eight of them without batch normalisation give nearly
the same logits for every image: training stands still for a long time.
"""

from typing import TypeVar

from torch import nn

from gossip.models.inputs import image_shape, with_channels

_VGG11 = ((1,), (2,), (4, 4), (8, 8), (8, 8))
"""Channels of VGG11's convolutions as multiples of the width; a pooling after each group."""
_ALEXNET = ((1, 5, 2, True), (3, 5, 1, True), (6, 3, 1, False), (4, 3, 1, False), (4, 3, 1, True))
"""AlexNet's convolutions: channels as multiples of the width, kernel, stride, pooled or not."""

Weighted = TypeVar("Weighted", nn.Conv2d, nn.Linear)


def vgg(
    input_shape: tuple[int, ...], num_classes: int, *, width: int = 64, batch_norm: bool = False
) -> nn.Module:
    """VGG11's eight convolutions with one linear layer on top, as is usual on 32x32 images.

    The poolings round up, so that 28x28 images fit, too. 9,225,610 parameters on CIFAR-10.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels of the first convolution; the last have eight times as many.
        batch_norm: normalise after each convolution (the entry `vgg-bn`).

    Raises:
        UserError: the inputs are no images.

    Reference: Simonyan, Zisserman, "Very deep convolutional networks for large-scale image
    recognition", 2015, configuration A; there with two more linear layers of 4096, and dropout.
    """
    channels, height, breadth = image_shape("vgg", input_shape)
    layers = [with_channels(input_shape)]
    for group in _VGG11:
        for multiple in group:
            fan_out = multiple * width
            layers.append(_he(nn.Conv2d(channels, fan_out, 3, padding=1)))
            layers += [nn.BatchNorm2d(fan_out), nn.ReLU()] if batch_norm else [nn.ReLU()]
            channels = fan_out
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    size = channels * -(-height // 32) * -(-breadth // 32)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(size, num_classes))


def alexnet(input_shape: tuple[int, ...], num_classes: int, *, width: int = 64) -> nn.Module:
    """AlexNet's shape on small images: five convolutions, then two wide linear layers.

    Without dropout, and with 1024 units where the original has 4096: 4,560,714 parameters on
    CIFAR-10, nearly half of them in the linear layers.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels of the first convolution; a hidden layer has 16 times as many units.

    Raises:
        UserError: the inputs are no images.

    Reference: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional
    neural networks", 2012; channels as in Krizhevsky's "one weird trick" version of 2014.
    """
    channels, height, breadth = image_shape("alexnet", input_shape)
    layers = [with_channels(input_shape)]
    for multiple, kernel, stride, pooled in _ALEXNET:
        fan_out = multiple * width
        convolution = nn.Conv2d(channels, fan_out, kernel, stride, padding=kernel // 2)
        layers += [_he(convolution), nn.ReLU()]
        layers += [nn.MaxPool2d(2, ceil_mode=True)] if pooled else []
        channels = fan_out
    # The first stride and the three poolings halve a side each, rounding up.
    size, hidden = channels * -(-height // 16) * -(-breadth // 16), 16 * width
    head = [_he(nn.Linear(size, hidden)), nn.ReLU(), _he(nn.Linear(hidden, hidden)), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), *head, nn.Linear(hidden, num_classes))


def _he(layer: Weighted) -> Weighted:
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
