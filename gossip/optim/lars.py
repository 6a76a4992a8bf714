"""LARS: each layer moves by a share of its own norm."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gossip.optim.tensorwise import TensorWise, check_not_negative, momentum_buffer, norm

MOMENTUM_FORMS = ("tf", "torch")


class Lars(TensorWise):
    r"""Layer-wise adaptive rate scaling.

    .. math::
        r &= \eta_c \frac{\|w\|}{\|g\| + \lambda \|w\| + \varepsilon}, \quad
             r = 1 \text{ if } \|w\| = 0 \text{ or } \|g\| = 0 \\
        v &\leftarrow \mu v + \alpha\, r\, (g + \lambda w), \quad w \leftarrow w - v

    for every layer (parameter tensor) w. Layers of at most one dimension, biases and the scales
    of normalisations, take plain momentum: r = 1 and no decay. A layer without gradient moves by
    its decay alone, with r = 1.

    Args:
        params: parameters or groups of them.
        lr: alpha.
        momentum: mu.
        weight_decay: lambda.
        trust_coefficient: eta_c.
        eps: varepsilon.
        momentum_form: "tf" as above, alpha inside v, or "torch": v <- mu v + r (g + lambda w),
            w <- w - alpha v. They differ once alpha changes.

    Raises:
        ValueError: a negative option, or an unknown momentum form.

    Reference: You, Gitman, Ginsburg, "Large batch training of convolutional networks",
    arXiv 1708.03888, Algorithm 1 (eta for eta_c); zero norms and layers left out as in
    TensorFlow's LARSOptimizer.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        trust_coefficient: float = 0.001,
        eps: float = 0.0,
        momentum_form: str = "tf",
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
            "eps": eps,
        }
        check_not_negative(**options)
        if momentum_form not in MOMENTUM_FORMS:
            raise ValueError(
                f"momentum_form is {momentum_form!r}: it must be {' or '.join(MOMENTUM_FORMS)}"
            )
        super().__init__(params, {**options, "momentum_form": momentum_form})

    def update(self, w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Step the layer w in place."""
        v, lr = momentum_buffer(w, state), group["lr"]
        inside, outside = (lr, 1.0) if group["momentum_form"] == "tf" else (1.0, lr)
        if w.ndim > 1:
            g = self._trust(w, g, group) * g.add(w, alpha=group["weight_decay"])
        v.mul_(group["momentum"]).add_(g, alpha=inside)
        w.sub_(v, alpha=outside)

    @staticmethod
    def _trust(w: Tensor, g: Tensor, group: dict[str, Any]) -> Tensor:
        """The ratio r."""
        w_norm, g_norm = norm(w), norm(g)
        ratio = w_norm / (g_norm + group["weight_decay"] * w_norm + group["eps"])
        both = (w_norm > 0) & (g_norm > 0)
        return torch.where(both, group["trust_coefficient"] * ratio, 1.0)
