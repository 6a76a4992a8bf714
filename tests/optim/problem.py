"""Weights, gradients and learning rates of a few steps, and what an optimizer makes of them."""

import numpy as np
import torch

RNG = np.random.default_rng(0)
W, G1, G2 = (RNG.standard_normal((3, 4)) for _ in range(3))
RATES = (0.5, 0.2)


def run(make, start, gradients, rates, **options) -> np.ndarray:
    """The weights after a step with each of the gradients."""
    w = torch.nn.Parameter(torch.tensor(start))
    optimizer = make([w], lr=1.0, **options)
    for g, lr in zip(gradients, rates, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        w.grad = torch.tensor(g)
        optimizer.step()
    return w.detach().numpy()
