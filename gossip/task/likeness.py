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
    if not one.numel():
        return True
    tolerance = torch.finfo(one.dtype).eps ** 0.5 * max(_largest(one), _largest(other)) + rounding
    return torch.allclose(one, other, rtol=0, atol=tolerance, equal_nan=True)


def _largest(tensor: Tensor) -> float:
    return float(tensor.nan_to_num().abs().max()) if tensor.numel() else 0.0


def unlike(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """Names under which two gradients differ; one that is not there is zero.

    A layer without a gradient but by rounding, as a bias that a BatchNorm takes away again, is
    compared to the rounding of the others.
    """
    empty = {name: torch.zeros_like(tensor) for name, tensor in (*one.items(), *other.items())}
    one, other = {**empty, **one}, {**empty, **other}
    largest = max((_largest(tensor) for tensor in (*one.values(), *other.values())), default=0.0)
    return [
        name
        for name, zero in empty.items()
        if not alike(one[name], other[name], ROUNDINGS * torch.finfo(zero.dtype).eps * largest)
    ]
