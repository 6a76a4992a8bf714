"""Whether two results are the same, bit for bit or to rounding."""

import torch
from torch import Tensor


def differ(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are not the same bit for bit, NaN being like NaN."""
    return one.shape != other.shape or not torch.equal(one.nan_to_num(), other.nan_to_num())


def alike(one: Tensor, other: Tensor, rounding: float = 0.0) -> bool:
    """Whether two results are the same to half of their digits, as sums in another order are.

    Args:
        one: a result.
        other: another, of the same dtype.
        rounding: by which they may differ besides, where they are parts of something larger.
    """
    if one.shape != other.shape:
        return False
    if not one.numel():
        return True
    largest = max(float(tensor.nan_to_num().abs().max()) for tensor in (one, other))
    tolerance = torch.finfo(one.dtype).eps ** 0.5 * largest + rounding
    return torch.allclose(one, other, rtol=0, atol=tolerance, equal_nan=True)


def unlike(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """Names under which the two have different results; one that is not there is zero."""
    empty = {name: torch.zeros_like(tensor) for name, tensor in (*one.items(), *other.items())}
    one, other = {**empty, **one}, {**empty, **other}
    return [name for name in empty if not alike(one[name], other[name])]
