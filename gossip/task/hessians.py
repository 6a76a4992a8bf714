"""Hessians times vectors, by differentiating a gradient again."""

import torch
from torch import Tensor

from gossip.task.derivatives import dense, gradients, refuse_ends, twice_differentiable
from gossip.task.row_model import RowModel


def hessian_vectors(
    model: RowModel,
    row: Tensor,
    vectors: Tensor,
    inputs: Tensor,
    labels: Tensor,
    *,
    strict: bool = False,
) -> Tensor:
    """The Hessian of a batch's mean loss at `row` [d] times each of `vectors` [k, d].

    Raises:
        RuntimeError: `strict`, and a part of the gradient is taken for a constant.
    """
    parameters = model.parameters(row)
    leaves = list(parameters.values())
    with twice_differentiable():
        loss = model.exact_loss(parameters, inputs, labels)
    found = gradients(loss, leaves, create_graph=True)
    flat = torch.cat([g.reshape(-1) for g in found])
    if strict:
        refuse_ends(flat)
    products = []
    for v in vectors:
        # Of the scalar g v: asked for the gradient of a vector, torch imports sympy.
        along = flat @ v
        parts = torch.autograd.grad(along, leaves, retain_graph=True, materialize_grads=True)
        products.append(torch.cat([dense(p).reshape(-1) for p in parts]))
    return torch.stack(products)
