"""Models whose logits and losses are finite and whose gradients are not, or not in float16."""

import math

import torch
from torch import Tensor, nn

BRIGHT = 22.0
"""Some of the digits have more ink than this."""


class Overflowing(nn.Module):
    """Linear, and a parameter whose gradient passes float16 multiplied by a factor.

    It fits only after the first scale has been halved a few times. Its forward pass is that of
    the linear model.
    """

    factor = 128.0

    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.linear = nn.Linear(math.prod(input_shape), num_classes)
        self.last = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        nothing = (self.last - self.last.detach()).half() * self.factor
        return self.linear(flat) + nn.functional.pad(self.weighed(flat, nothing), (0, 9))

    def weighed(self, flat: Tensor, nothing: Tensor) -> Tensor:
        """[batch, 1]."""
        return nothing.expand(len(flat), 1)


class OneOverflows(Overflowing):
    """Whose gradient is infinite at any scale, but only where a sample is bright."""

    def weighed(self, flat: Tensor, nothing: Tensor) -> Tensor:
        bright = (flat.float().sum(dim=1, keepdim=True) > BRIGHT).half()
        return bright * (nothing * 6e4 * 6e4)
