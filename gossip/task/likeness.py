"""Whether two results are the same, bit for bit or to rounding."""

import torch
from torch import Tensor

ROUNDINGS = 64
"""Of the largest number of a gradient, by so many a layer's may be off where it should be zero."""


def differ(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are not the same bit for bit, NaN being like NaN."""
    return one.shape != other.shape or not torch.equal(one.nan_to_num(), other.nan_to_num())


def alike(one: Tensor, other: Tensor, rounding: float = 0.0) -> bool:
    """Whether two results are the same to half of their digits, as sums in another order are.

    Or to `rounding`, which is what is left of numbers that should cancel.
    """
    if one.shape != other.shape:
        return False
    if torch.equal(one, other):
        return True
    tolerance = half_of_digits(one) * max(_largest(one), _largest(other)) + rounding
    return torch.allclose(one, other, rtol=0, atol=tolerance, equal_nan=True)


def _largest(tensor: Tensor) -> float:
    """The largest absolute value among the finite ones."""
    return float(tensor.abs().nan_to_num(0.0, 0.0, 0.0).max()) if tensor.numel() else 0.0


def half_of_digits(tensor: Tensor) -> float:
    """The square root of the spacing of floating-point numbers at 1."""
    return torch.finfo(tensor.dtype).eps ** 0.5


def unlike(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """Names under which two gradients differ; one that is not there is zero.

    A layer without a gradient but by rounding, as a bias that a BatchNorm takes away again, is
    compared to the rounding of the others.
    """
    empty = {name: torch.zeros_like(tensor) for name, tensor in (*one.items(), *other.items())}
    one, other = {**empty, **one}, {**empty, **other}
    doubtful = [name for name in empty if not alike(one[name], other[name])]
    if not doubtful:
        return []
    largest = max(_largest(tensor) for tensor in (*one.values(), *other.values()))
    return [
        name
        for name in doubtful
        if not alike(one[name], other[name], _rounding(empty[name]) * largest)
    ]


def _rounding(tensor: Tensor) -> float:
    """`ROUNDINGS` of a number of size 1; half of the digits where there are few."""
    return min(ROUNDINGS * torch.finfo(tensor.dtype).eps, half_of_digits(tensor))
