"""Inverted residuals, the nets for phones: MobileNetV2 and EfficientNet-B0 on small images.

A block widens its channels by a 1x1 convolution, filters each by itself (a depthwise convolution),
and narrows them by another 1x1 without an activation; input and output, which are narrow, are added
where they have the same shape. Both nets keep the strides of their papers but for the first
convolution's, 1 in place of 2, so that a 32x32 image is halved four times. Smaller ones are halved
down to 2 pixels a side.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from gossip.models.inputs import image_shape, with_channels

_WIDTH = 32
"""Channels of the first convolution in both papers, whose other channels are given at this one."""


class Stage(NamedTuple):
    """Blocks one after the other: a line of the papers' tables."""

    expansion: int
    channels: int
    """Of its outputs, at `_WIDTH`."""
    repeats: int
    stride: int
    """Of its first block."""
    kernel: int


_MOBILENET_V2 = (
    Stage(1, 16, 1, 1, 3),
    Stage(6, 24, 2, 2, 3),
    Stage(6, 32, 3, 2, 3),
    Stage(6, 64, 4, 2, 3),
    Stage(6, 96, 3, 1, 3),
    Stage(6, 160, 3, 2, 3),
    Stage(6, 320, 1, 1, 3),
)
_EFFICIENTNET_B0 = (
    Stage(1, 16, 1, 1, 3),
    Stage(6, 24, 2, 2, 3),
    Stage(6, 40, 2, 2, 5),
    Stage(6, 80, 3, 2, 3),
    Stage(6, 112, 3, 1, 5),
    Stage(6, 192, 4, 2, 5),
    Stage(6, 320, 1, 1, 3),
)
_LAST = 1280
"""Channels of the last convolution, at `_WIDTH`."""
_SIDE = 2
"""Pixels that are not halved: a BatchNorm of few samples with one pixel each has variances near
zero, and gradients of thousands."""


class SqueezeExcitation(nn.Module):
    """x * sigmoid(W_2 silu(W_1 mean(x) + b_1) + b_2): a factor in (0, 1) for each channel.

    Reference: Hu et al., "Squeeze-and-excitation networks", 2018.
    """

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.factors = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> the same."""
        return x * self.factors(x)


class InvertedResidual(nn.Module):
    """body(x), and x added to it where it has the same shape."""

    def __init__(self, body: nn.Module, *, added: bool) -> None:
        super().__init__()
        self.body, self.added = body, added

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, fan_out, H / stride, W / stride], rounded up."""
        return x + self.body(x) if self.added else self.body(x)


def mobilenet(input_shape: tuple[int, ...], num_classes: int, *, width: int = 32) -> nn.Module:
    """MobileNetV2 for small images: 17 inverted residuals, 2,236,682 parameters on CIFAR-10.

    All channels are proportional to the width, rounded to the nearest number and not, as there, to
    multiples of 8; the last convolution's, too, which the paper leaves at 1280 in narrow nets.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels of the first convolution; the last has 40 times as many.

    Raises:
        UserError: the inputs are no images.

    Reference: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018;
    there with a first stride of 2, and dropout before the linear layer.
    """
    plan = Plan(_MOBILENET_V2, nn.ReLU6, squeeze=False)
    return _inverted("mobilenet", input_shape, num_classes, width, plan)


def efficientnet(input_shape: tuple[int, ...], num_classes: int, *, width: int = 32) -> nn.Module:
    """EfficientNet-B0 for small images: 16 inverted residuals that squeeze and excite.

    4,020,358 parameters on CIFAR-10. The squeezed layer of a block has a quarter of the channels
    that go into the block; all channels are proportional to the width, rounded to the nearest
    number.

    Args:
        input_shape: [C, H, W] or [H, W].
        num_classes: number of outputs.
        width: channels of the first convolution; the last has 40 times as many.

    Raises:
        UserError: the inputs are no images.

    Reference: Tan, Le, "EfficientNet: rethinking model scaling for convolutional neural networks",
    2019; there with a first stride of 2, dropout, and blocks that are left out by chance.
    """
    plan = Plan(_EFFICIENTNET_B0, nn.SiLU, squeeze=True)
    return _inverted("efficientnet", input_shape, num_classes, width, plan)


class Plan(NamedTuple):
    """What tells one of the nets from the other."""

    stages: tuple[Stage, ...]
    activation: Callable[[], nn.Module]
    squeeze: bool
    """Whether there is a squeeze and excitation behind each depthwise convolution."""


def _inverted(
    name: str, input_shape: tuple[int, ...], num_classes: int, width: int, plan: Plan
) -> nn.Module:
    channels, *sides = image_shape(name, input_shape)
    side, act = min(sides), plan.activation
    layers = [with_channels(input_shape), *_normed(channels, width, 3), act()]
    channels = width
    for stage in plan.stages:
        fan_out = _scaled(stage.channels, width)
        for k in range(stage.repeats):
            stride = 1 if k or side <= _SIDE else stage.stride
            side = -(-side // stride)
            body = _body(channels, fan_out, stage._replace(stride=stride), plan)
            layers.append(InvertedResidual(body, added=stride == 1 and channels == fan_out))
            channels = fan_out
    last = _scaled(_LAST, width)
    layers += [*_normed(channels, last, 1), act()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, num_classes)]
    return nn.Sequential(*layers, *head)


def _scaled(channels: int, width: int) -> int:
    return max(1, round(channels * width / _WIDTH))


def _body(channels: int, fan_out: int, stage: Stage, plan: Plan) -> nn.Sequential:
    """What a block adds: widen, filter each channel, perhaps squeeze and excite, narrow."""
    wide, act = stage.expansion * channels, plan.activation
    widen = [*_normed(channels, wide, 1), act()] if stage.expansion > 1 else []
    filtered = [*_normed(wide, wide, stage.kernel, stage.stride, groups=wide), act()]
    squeeze = [SqueezeExcitation(wide, max(1, channels // 4))] if plan.squeeze else []
    return nn.Sequential(*widen, *filtered, *squeeze, *_normed(wide, fan_out, 1))


def _normed(
    channels: int, fan_out: int, kernel: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, nn.Module]:
    """A convolution and its batch normalisation, which makes a bias superfluous."""
    options = {"padding": kernel // 2, "groups": groups, "bias": False}
    return nn.Conv2d(channels, fan_out, kernel, stride, **options), nn.BatchNorm2d(fan_out)
