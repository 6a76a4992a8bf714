"""The number by which two results are compared."""

from torch import Tensor


def difference(found: Tensor, expected: Tensor) -> Tensor:
    """Max |a - b| / (1 + |b|), NaN if there is one."""
    return ((found - expected).abs() / (1 + expected.abs())).max()
