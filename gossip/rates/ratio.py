"""DATE's bounded ratio of weights to gradient, layer by layer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gossip.errors import UserError, one_of
from gossip.task.layers import Layer, layer_squares

LAYER_RATIOS = ("off", "fixed", "quantile")
"""What `--layer-ratio` offers."""
_DEFAULT_LIMITS = {"fixed": (0.1, 10.0), "quantile": (0.1, 0.9)}


@dataclass(frozen=True)
class LayerRatio:
    r"""A factor of each layer's rate.

    .. math:: r_k = \min(\max(\|w_k\| / \|g_k\|, lower), upper)

    with the ratio 1 where either norm is 0. No weight decay and no trust coefficient enter it.
    It multiplies the rate, not the gradient, which adaptive optimizers would normalise away.

    Reference: You et al., SC 2019, Section 3.5 and Algorithm 1, lines 10-17, where the limits are
    called dynamic and not given: ours are fixed, or quantiles of the step's own ratios.
    """

    kind: str
    """fixed, or quantile: the limits are quantiles of the layers' ratios at this step."""
    lower: float
    upper: float

    def __call__(self, x: Tensor, gradients: Tensor, layers: tuple[Layer, ...]) -> Tensor:
        """The ratio r of weights x and gradients, both [rows, d]: float64 [rows, layers].

        On the CPU, as all rates are: few numbers, which an optimizer takes from there.
        """
        squares = torch.stack([layer_squares(rows, layers) for rows in (x, gradients)])
        weights, slopes = squares.sqrt().cpu()
        ratio = torch.where((weights > 0) & (slopes > 0), weights / slopes, 1.0)
        if self.kind == "fixed":
            return ratio.clamp(self.lower, self.upper)
        limits = torch.tensor([self.lower, self.upper], dtype=ratio.dtype)
        lower, upper = torch.quantile(ratio, limits, dim=1, keepdim=True)
        return ratio.clamp(lower, upper)


def layer_ratio(kind: str, limits: tuple[float, float] | None = None) -> LayerRatio | None:
    """One of `LAYER_RATIOS`; None for off.

    Raises:
        UserError: no such kind, or limits that are negative, crossed or no quantiles.
    """
    one_of(LAYER_RATIOS, kind, "layer ratio")
    if kind == "off":
        return None
    lower, upper = limits or _DEFAULT_LIMITS[kind]
    if not 0 <= lower <= upper or (kind == "quantile" and upper > 1):
        allowed = "quantiles in [0, 1]" if kind == "quantile" else "positive numbers"
        raise UserError(
            f"layer-ratio limits {lower:g} {upper:g}: give lower and upper {allowed}, "
            "lower not above upper"
        )
    return LayerRatio(kind, lower, upper)
