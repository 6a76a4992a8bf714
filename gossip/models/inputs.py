"""Activations, and the checks that inputs are images or tokens, shared by the models."""

from torch import Tensor, nn

from gossip.errors import UserError

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
"""What `--activation` offers."""


def image_shape(model: str, input_shape: tuple[int, ...], side: int = 4) -> tuple[int, int, int]:
    """Channels, height and width of inputs [C, H, W] or [H, W].

    Args:
        model: its name in the message.
        input_shape: shape of one sample.
        side: the least height and width the model can take, in pixels.

    Raises:
        UserError: the inputs are no images, or smaller.
    """
    if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < side:
        raise UserError(
            f"{model} needs images ([height, width] or [channels, height, width]) of at least "
            f"{side} x {side} pixels, got inputs of shape {list(input_shape)}"
        )
    *channels, height, width = input_shape
    return channels[0] if channels else 1, height, width


def with_channels(input_shape: tuple[int, ...]) -> nn.Module:
    """The layer that makes batches [B, H, W] into [B, 1, H, W] and leaves [B, C, H, W] alone."""
    return nn.Identity() if len(input_shape) == 3 else nn.Unflatten(1, (1, input_shape[0]))


def token_steps(model: str, input_shape: tuple[int, ...]) -> int:
    """T of inputs [T], windows of token ids.

    Args:
        model: its name in the message.
        input_shape: shape of one sample.

    Raises:
        UserError: the inputs are no windows of tokens.
    """
    if len(input_shape) != 1:
        raise UserError(
            f"{model} needs windows of token ids ([steps]), got inputs of shape {list(input_shape)}"
        )
    return input_shape[0]


def refuse_numbers(model: str, tokens: Tensor, example: str) -> None:
    """Refuse inputs that are no token ids, and name a dataset of such.

    Raises:
        UserError: they are floating-point numbers.
    """
    if tokens.is_floating_point():
        raise UserError(
            f"{model} needs token ids (integers), got inputs of type {tokens.dtype}: use a "
            f"dataset of tokens, for example {example}"
        )
