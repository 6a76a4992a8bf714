"""A small tree of named tuples, numbers and tensors, taken apart for a snapshot."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

Parts = tuple[dict[str, Any], dict[str, Tensor]]
"""Path -> number or None, and path -> tensor."""


def flattened(tree: Any, path: str) -> Parts:
    """Numbers and tensors of `tree` by their path, such as "rates/averages/squares".

    Args:
        tree: a NamedTuple of trees, a tensor, a number or None.
        path: of the root.
    """
    if isinstance(tree, Tensor):
        return {}, {path: tree}
    if not isinstance(tree, tuple):
        return {path: tree}, {}
    numbers: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for name, value in zip(tree._fields, tree, strict=True):  # type: ignore[attr-defined]
        some_numbers, some_tensors = flattened(value, f"{path}/{name}")
        numbers |= some_numbers
        tensors |= some_tensors
    return numbers, tensors


def rebuilt(like: Any, path: str, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """The tree that `flattened` took apart.

    Args:
        like: a tree of the same shape, for instance the state before the first step.
        path: of the root.
        numbers: by path; others may be among them.
        tensors: by path; others may be among them.

    Raises:
        KeyError: a part is missing.
        ValueError: a part is of another kind or shape than in `like`.
    """
    if isinstance(like, Tensor):
        tensor = tensors[path]
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise ValueError(f"{path} is {list(tensor.shape)}, not {list(like.shape)}")
        return tensor.clone()
    if isinstance(like, tuple):
        names = like._fields  # type: ignore[attr-defined]
        parts = (
            rebuilt(value, f"{path}/{name}", numbers, tensors)
            for name, value in zip(names, like, strict=True)
        )
        return type(like)(*parts)
    number = numbers[path]
    if (number is None) != (like is None) or not isinstance(number, int | float | None):
        raise ValueError(f"{path} is {number!r}")
    return number
