"""Gradients that are differentiated again, and where their graph ends without saying so."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


def twice_differentiable() -> AbstractContextManager[object]:
    """In this block attention is its plain formula: fused, it has no second derivative."""
    return sdpa_kernel(SDPBackend.MATH)


def gradients(
    loss: Tensor, leaves: Sequence[Tensor], *, create_graph: bool = False
) -> tuple[Tensor, ...]:
    """Gradients of a loss, dense; zeros for a leaf that it does not use."""
    found = torch.autograd.grad(loss, leaves, create_graph=create_graph, materialize_grads=True)
    return tuple(map(dense, found))


def dense(gradient: Tensor) -> Tensor:
    """A gradient that an embedding may have given as sparse."""
    return gradient.to_dense() if gradient.is_sparse else gradient


def refuse_ends(gradient: Tensor) -> None:
    """Refuse a gradient with a part that autograd takes for a constant, without saying so.

    Raises:
        RuntimeError: a function in it is marked with `once_differentiable`.
    """
    seen: set[object] = set()
    nodes = [gradient.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if node.name().rpartition("::")[2] in ("Error", "DelayedError"):
                raise RuntimeError("a function in it is marked with once_differentiable")
            nodes += [after for after, _ in node.next_functions]
