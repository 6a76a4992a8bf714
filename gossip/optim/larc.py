"""LARC: LARS that never raises the learning rate of a layer."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gossip.optim.tensorwise import TensorWise, check_not_negative, momentum_buffer, norm


class Larc(TensorWise):
    r"""SGD with momentum on gradients scaled layer by layer.

    .. math::
        r &= \eta_c \frac{\|w\|}{\|g\| + \lambda \|w\| + \varepsilon}, \quad
             r \leftarrow \min(r / \alpha, 1) \text{ if clipped} \\
        v &\leftarrow \mu v + r\, (g + \lambda w), \quad w \leftarrow w - \alpha v

    for every layer (parameter tensor) w, so that a clipped layer has the rate min(r, alpha). A
    layer with ||w|| = 0 or ||g|| = 0 takes its gradient as it is, r = 1, without decay.

    Args:
        params: parameters or groups of them.
        lr: alpha.
        momentum: mu.
        weight_decay: lambda.
        trust_coefficient: eta_c.
        eps: varepsilon.
        clip: whether alpha is an upper limit of the layers' rates; if not, it multiplies them.

    Raises:
        ValueError: a negative option.

    Reference: LARC of NVIDIA's apex, there a wrapper around any optimizer.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.02,
        eps: float = 1e-8,
        clip: bool = True,
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
            "eps": eps,
        }
        check_not_negative(**options)
        super().__init__(params, {**options, "clip": clip})

    def update(self, w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Step the layer w in place."""
        v = momentum_buffer(w, state)
        v.mul_(group["momentum"]).add_(self._scaled(w, g, group))
        w.sub_(v, alpha=group["lr"])

    @staticmethod
    def _scaled(w: Tensor, g: Tensor, group: dict[str, Any]) -> Tensor:
        """The gradient r (g + lambda w)."""
        w_norm, g_norm, decay = norm(w), norm(g), group["weight_decay"]
        ratio = group["trust_coefficient"] * w_norm / (g_norm + decay * w_norm + group["eps"])
        if group["clip"]:
            ratio = (ratio / group["lr"]).clamp(max=1.0)
        both = (w_norm > 0) & (g_norm > 0)
        return torch.where(both, ratio * g.add(w, alpha=decay), g)
