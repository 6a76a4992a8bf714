"""Residual networks with the stem for small images: one 3x3 convolution, no first pooling."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from gossip.models.inputs import image_shape, with_channels


class Residual(nn.Module):
    """ReLU(body(x) + shortcut(x)); the shortcut is a 1x1 convolution where the shapes differ."""

    def __init__(self, body: nn.Module, channels: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = stride == 1 and channels == fan_out
        self.shortcut = nn.Identity() if same else _normed(channels, fan_out, 1, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, fan_out, H / stride, W / stride], rounded up."""
        return self.relu(self.body(x) + self.shortcut(x))


def _normed(channels: int, fan_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution and its batch normalisation, which makes a bias superfluous."""
    convolution = nn.Conv2d(channels, fan_out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(fan_out))


def _basic(channels: int, width: int, stride: int) -> Residual:
    first = _normed(channels, width, 3, stride)
    body = nn.Sequential(*first, nn.ReLU(), *_normed(width, width, 3))
    return Residual(body, channels, width, stride)


def _bottleneck(channels: int, width: int, stride: int) -> Residual:
    # The stride is on the 3x3 convolution, as in torchvision; the paper has it on the first 1x1.
    first, middle = _normed(channels, width, 1), _normed(width, width, 3, stride)
    body = nn.Sequential(*first, nn.ReLU(), *middle, nn.ReLU(), *_normed(width, 4 * width, 1))
    return Residual(body, channels, 4 * width, stride)


def resnet18(input_shape: tuple[int, ...], num_classes: int, *, width: int = 64) -> nn.Module:
    """ResNet-18 for small images: stages of 2-2-2-2 basic blocks, 11,173,962 parameters on CIFAR.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels of the first stage; each later stage has twice as many.

    Raises:
        UserError: the inputs are no images.

    Reference: He et al., "Deep residual learning for image recognition", 2016.
    """
    return _resnet(
        "resnet18", input_shape, num_classes, width, ResidualPlan(_basic, 1, (2, 2, 2, 2))
    )


def resnet50(input_shape: tuple[int, ...], num_classes: int, *, width: int = 64) -> nn.Module:
    """ResNet-50 for small images: 3-4-6-3 bottleneck blocks, 23,520,842 parameters on CIFAR.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels inside the blocks of the first stage, which give four times as many.

    Raises:
        UserError: the inputs are no images.

    Reference: He et al., "Deep residual learning for image recognition", 2016.
    """
    return _resnet(
        "resnet50", input_shape, num_classes, width, ResidualPlan(_bottleneck, 4, (3, 4, 6, 3))
    )


class ResidualPlan(NamedTuple):
    """What tells one residual network from another."""

    block: Callable[[int, int, int], Residual]
    """(channels, width, stride) -> a block that gives expansion x width channels."""
    expansion: int
    repeats: tuple[int, ...]
    """Blocks in each stage."""


def _resnet(
    name: str, input_shape: tuple[int, ...], num_classes: int, width: int, plan: ResidualPlan
) -> nn.Module:
    channels, _, _ = image_shape(name, input_shape)
    layers = [with_channels(input_shape), *_normed(channels, width, 3), nn.ReLU()]
    channels = width
    for stage, repeats in enumerate(plan.repeats):
        for k in range(repeats):
            # The first block of each stage but the first halves the sides, rounding up.
            layers.append(plan.block(channels, width * 2**stage, 2 if stage and not k else 1))
            channels = plan.expansion * width * 2**stage
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes)]
    return nn.Sequential(*layers, *head)
