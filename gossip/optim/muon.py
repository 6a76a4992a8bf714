"""Muon: momentum whose matrices are made orthogonal, and AdamW for what is no matrix."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gossip.optim.tensorwise import TensorWise, adam_moments, check_not_negative, momentum_buffer

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic that takes singular values in (0, 1] to about 1 in five steps (the author's)."""


class Muon(TensorWise):
    r"""Momentum, orthogonalised.

    .. math::
        b \leftarrow \mu b + (1 - \mu) g, \qquad
        O = \mathrm{NS}_k \bigl( (1 - \mu) g + \mu b \bigr), \qquad
        w \leftarrow (1 - \alpha \lambda) w - 0.2\, \alpha \sqrt{\max(A, B)}\; O

    for every matrix w [A, B]; of a kernel [out, in, ...] that is [out, in ...]. NS divides by the
    Frobenius norm and does k steps of X <- aX + b(XX^T)X + c(XX^T)^2 X, which brings the singular
    values near 1 (0.7 to 1.2) and keeps the singular vectors. With the factor 0.2 sqrt(max(A, B))
    a step is as large as AdamW's, so that alpha and lambda are those of AdamW, which steps all the
    rest, vectors and numbers, with beta_1, beta_2, varepsilon.

    In the dtype of the weights; torch.optim.Muon, which takes matrices alone, iterates in bfloat16.

    Args:
        params: parameters or groups of them.
        lr: alpha.
        momentum: mu.
        weight_decay: lambda.
        betas: beta_1 and beta_2.
        eps: varepsilon.
        iterations: k.

    Raises:
        ValueError: a negative option, or a beta or mu outside [0, 1).
        TypeError: a part of an iteration.

    References: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu
    et al., "Muon is scalable for LLM training", 2025, arXiv 2502.16982 (the factor). Who used them
    left the first and the last layer to AdamW; here they are matrices like others.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        iterations: int = 5,
    ) -> None:
        options = {"lr": lr, "weight_decay": weight_decay, "eps": eps, "iterations": iterations}
        check_not_negative(**options)
        if not isinstance(iterations, int):
            raise TypeError(f"iterations is {iterations}: it must be a whole number")
        if not all(0 <= decay < 1 for decay in (momentum, *betas)):
            raise ValueError(f"momentum {momentum} and betas {betas}: each must be in [0, 1)")
        super().__init__(params, {**options, "momentum": momentum, "betas": betas})

    def update(self, w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Step the layer w in place."""
        lr = group["lr"]
        u = (self._matrix if w.ndim > 1 else self._adam)(w, g, state, group)
        w.mul_(1 - lr * group["weight_decay"]).sub_(u, alpha=lr)

    @staticmethod
    def _matrix(w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """The orthogonal direction, as large as Adam's."""
        mu = group["momentum"]
        b = momentum_buffer(w, state).lerp_(g, 1 - mu)
        matrix = orthogonal(g.lerp(b, mu).flatten(1), group["iterations"])
        return 0.2 * max(matrix.shape) ** 0.5 * matrix.view_as(w)

    @staticmethod
    def _adam(w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Adam's direction."""
        m, v, t = adam_moments(w, g, state, group["betas"])
        beta1, beta2 = group["betas"]
        return m / (1 - beta1**t) / (v / (1 - beta2**t)).sqrt().add_(group["eps"])


def orthogonal(g: Tensor, iterations: int = 5) -> Tensor:
    """About U V^T of g = U S V^T [A, B], by Newton-Schulz steps; 0 of 0."""
    a, b, c = COEFFICIENTS
    x = g.T if g.shape[0] > g.shape[1] else g
    # Above 0, and no number is read back from the device.
    x = x / torch.linalg.matrix_norm(x).clamp(min=torch.finfo(x.dtype).tiny)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if g.shape[0] > g.shape[1] else x).contiguous()
