"""A user's model, made under a seed: the same numbers each time, in any dtype and on any device."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from gossip.errors import UserError, said
from gossip.streams import seeded
from gossip.task.numerics import Numerics

Build = Callable[[], nn.Module]
"""Makes a model, drawing its initial weights from torch's, NumPy's or Python's generators."""


def made(build: Build, seed: int, inputs: Tensor) -> nn.Module:
    """The model that `build` makes with the global random numbers at `seed`.

    Args:
        build: makes it.
        seed: of its numbers.
        inputs: a batch, from which lazy modules take their shapes.

    Raises:
        UserError: a lazy module cannot take the batch.
    """
    with seeded(seed, inputs.device):
        model = build()
        if any(isinstance(part, LazyModuleMixin) for part in model.modules()):
            _give_shapes(model, inputs)
    return model


def _give_shapes(model: nn.Module, inputs: Tensor) -> None:
    """Run a batch through a model whose parameters have no shapes yet."""
    model.eval()
    own = inputs.cpu()
    try:
        with torch.no_grad():
            model(own.to(torch.get_default_dtype()) if own.is_floating_point() else own)
    # What a model does in its forward pass is its own affair.
    except Exception as error:
        raise cannot_take(model, inputs, error) from error
    model.train()


def cannot_take(model: nn.Module, inputs: Tensor, error: Exception) -> UserError:
    """What the user is told when a forward or backward pass fails."""
    return UserError(
        f"model {type(model).__name__} cannot take {len(inputs)} inputs of shape "
        f"{list(inputs.shape[1:])} and type {inputs.dtype}: {said(error)}"
    )


def logits(
    model: nn.Module, outputs: object, inputs: Tensor, labels: Tensor, num_classes: int
) -> Tensor:
    """The outputs, if they are logits, a row of classes for each label, or a number for each.

    Raises:
        UserError: they are not.
    """
    name = f"model {type(model).__name__} gives"
    if labels.is_floating_point():
        needed = f"needed is a number for each label, {list(labels.shape)}"
    else:
        shape = ", ".join(map(str, [*labels.shape, num_classes or "classes"]))
        needed = f"needed are logits, [{shape}]"
    if not isinstance(outputs, Tensor):
        mode = "in training" if model.training else "in evaluation"
        raise UserError(f"{name} {type(outputs).__name__} {mode}, not a tensor; {needed}")
    if labels.is_floating_point():
        fits = outputs.shape == labels.shape
    else:
        fits = outputs.ndim > 1 and outputs.shape[:-1] == labels.shape
        fits = fits and outputs.shape[-1] >= num_classes
    if not fits or not outputs.is_floating_point():
        count = "one sample" if len(inputs) == 1 else f"{len(inputs)} samples"
        kind = "" if outputs.is_floating_point() else f" and type {outputs.dtype}"
        raise UserError(
            f"{name} outputs of shape {list(outputs.shape)}{kind} for {count} of shape "
            f"{list(inputs.shape[1:])}; {needed}"
        )
    return outputs


def converted(model: nn.Module, numerics: Numerics, dtype: torch.dtype) -> nn.Module:
    """The model on the device and in `dtype`; what is complex stays so, in the same precision.

    Raises:
        UserError: it has no numbers to be moved, or some that are not to be had there.
    """

    def move(tensor: Tensor) -> Tensor:
        own = dtype if tensor.is_floating_point() else None
        return tensor.to(numerics.device, dtype.to_complex() if tensor.is_complex() else own)

    try:
        return model._apply(move)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise UserError(
            f"model {type(model).__name__} cannot be moved to {numerics.device} as {dtype}: "
            f"{said(error)}"
        ) from error


def refuse_unlike(one: nn.Module, other: nn.Module) -> None:
    """Refuse a model that is not the same each time it is made under one seed.

    Raises:
        UserError: it is not.
    """
    numbers = [dict(_numbers(model)) for model in (one, other)]
    for name in numbers[0].keys() | numbers[1].keys():
        a, b = (own.get(name) for own in numbers)
        if a is None or b is None or a.shape != b.shape or not _same(a, b):
            raise UserError(
                f"model {type(one).__name__} is not the same when it is made twice under one seed "
                f"({name!r} differs): draw its numbers from the global generators of torch, NumPy "
                "or Python, which are seeded for it"
            )


def _numbers(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same numbers, or none at all."""
    return a.is_meta or torch.allclose(a.to(b.dtype), b, rtol=0, atol=0, equal_nan=True)
