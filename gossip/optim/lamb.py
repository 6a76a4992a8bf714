"""LAMB: Adam whose step in each layer is a share of the layer's norm."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gossip.optim.tensorwise import TensorWise, adam_moments, check_not_negative, norm


class Lamb(TensorWise):
    r"""Layer-wise adaptive moments.

    .. math::
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \quad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        u = \frac{m}{\sqrt v + \varepsilon} + \lambda w \\
        r &= \frac{\min(\|w\|, c)}{\|u\|}, \quad
             r = 1 \text{ if either norm is } 0, \quad w \leftarrow w - \alpha\, r\, u

    for every layer (parameter tensor) w, biases included.

    Args:
        params: parameters or groups of them.
        lr: alpha.
        betas: beta_1 and beta_2.
        eps: varepsilon.
        weight_decay: lambda.
        clip: c, the upper limit of phi(||w||); 0 makes r = 1 everywhere, which is Adam (AdamW
            with lambda > 0).
        bias_correction: whether u takes m / (1 - beta_1^t) and v / (1 - beta_2^t), as in the
            paper's earlier versions; t counts the steps from 1.

    Raises:
        ValueError: a negative option, or a beta outside [0, 1).

    Reference: You et al., "Large batch optimization for deep learning: training BERT in
    76 minutes", arXiv 1904.00962, Algorithm 2; clip and the missing correction as in
    cybertronai/pytorch-lamb.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        clip: float = 10.0,
        bias_correction: bool = False,
    ) -> None:
        options = {"lr": lr, "eps": eps, "weight_decay": weight_decay, "clip": clip}
        check_not_negative(**options)
        beta1, beta2 = betas
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
            raise ValueError(f"betas are {betas}: each must be in [0, 1)")
        super().__init__(params, {**options, "betas": betas, "bias_correction": bias_correction})

    def update(self, w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Step the layer w in place."""
        u = self._adam(w, g, state, group).add(w, alpha=group["weight_decay"])
        w_norm, u_norm = norm(w).clamp(max=group["clip"]), norm(u)
        trust = torch.where((w_norm > 0) & (u_norm > 0), w_norm / u_norm, 1.0)
        w.sub_(trust * u, alpha=group["lr"])

    @staticmethod
    def _adam(w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Adam's direction m / (sqrt(v) + eps), its moments brought up to date."""
        m, v, t = adam_moments(w, g, state, group["betas"])
        if group["bias_correction"]:
            beta1, beta2 = group["betas"]
            m, v = m / (1 - beta1**t), v / (1 - beta2**t)
        return m / v.sqrt().add_(group["eps"])
