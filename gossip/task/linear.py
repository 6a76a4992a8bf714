r"""Linear maps of many learners whose weights' gradients come out as they lie in a row.

.. math::
    Y_j = (W_j X_j^T)^T + 1 b_j^T \quad\Rightarrow\quad \bar W_j = \bar Y_j^T X_j

for learner j's batch X_j [batch, in], weights W_j [out, in], and barred what is propagated back.
What `torch.func.vmap` makes of X_j W_j^T gives the transposed of that, which has to be turned round
on its way into the row: up to a third of a gradient's time (784-50-50-10; docs/performance.md).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

MATRIX = 2
"""Dimensions of a weight, torch taking vectors, too, and of a plain batch [batch, in]."""


class WeightFirst(TorchFunctionMode):
    """In this block `torch.nn.functional.linear` multiplies from the left."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Every other function is called as it is, what it calls in turn included."""
        return (_linear if func is linear else func)(*args, **(kwargs or {}))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The arguments are named as torch names them; input [..., in] -> [..., out]."""
    if weight.ndim != MATRIX or not weight.shape[1]:
        return linear(input, weight, bias)
    y = (weight @ input.reshape(-1, input.shape[-1]).mT).mT
    y = y if bias is None else y + bias.to(y.dtype)  # mixed precision: as the product
    # To turn a large batch round takes longer than products of it: only where a model is likely to
    # view it, as words of a sequence. What it cannot view is seen as the engine is chosen.
    if input.ndim == MATRIX:
        return y
    return y.contiguous().view(*input.shape[:-1], len(weight))
