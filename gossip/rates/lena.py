"""LENA: every layer's own gradient variance scales its learning rate."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gossip.errors import UserError, one_of
from gossip.rates.base import RateContext
from gossip.rates.scaling import ScaleFactor
from gossip.rates.variance import Variance
from gossip.streams import LAYERS, generator

CLIPS = ("both", "upper", "none")
STATES = ("own", "whole")


@dataclass(frozen=True, eq=False, kw_only=True)
class Lena:
    r"""scale_k = clip(grad_var_k, 1, n), one per layer.

    Layers that are not `chosen` take the whole model's gradient variance.

    Reference: Ko, Lee, Kim, "Not all layers are equal: a layer-wise adaptive approach toward
    large-scale DNN training", WWW 2022, Section 3, Eq. 4. Deviation: the paper's claim that
    grad_var lies in [1, n] fails above for gradients that point against each other, so both ends
    are clipped; `clip="upper"` is the authors' code, `clip="none"` the printed equation.
    """

    learners: int
    """n."""
    chosen: Tensor
    """Layers that have a rate of their own, [layers] bool."""
    clip: str = "both"
    """One of `CLIPS`."""
    clipped_state: str = "own"
    """What the state-aware warm-up adds up for a layer clipped at n: own, the clipped value;
    whole, the whole model's, a side effect of the authors' code."""

    needs_norms = True
    counts_tau = False

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(CLIPS, self.clip, "clip")
        one_of(STATES, self.clipped_state, "clipped state")

    @property
    def per_layer(self) -> bool:
        """Whether there is more than one layer."""
        return len(self.chosen) > 1

    @property
    def nominal(self) -> float:
        """The number of learners, n."""
        return float(self.learners)

    def init(self) -> None:
        """The averages are `GradientVariance`'s; there is no more state."""

    def update(self, t: float, variance: Variance | None, state: None) -> tuple[ScaleFactor, None]:
        """Clipped gradient variances, [layers]."""
        assert variance is not None
        whole = torch.tensor(variance.whole, dtype=torch.float64)
        raw = torch.where(self.chosen, variance.layers, whole)
        factor = self._clipped(raw)
        gain = factor
        if self.clipped_state == "whole":
            gain = torch.where(raw > self.learners, self._clipped(whole), factor)
        return ScaleFactor(factor, gain), state

    def _clipped(self, raw: Tensor) -> Tensor:
        low = 1.0 if self.clip == "both" else None
        high = float(self.learners) if self.clip != "none" else None
        return raw if low is high is None else raw.clamp(low, high)


def lena(
    context: RateContext,
    *,
    clip: str = "both",
    share: float = 1.0,
    share_seed: int = 0,
    clipped_state: str = "own",
) -> Lena:
    """`Lena` for a model's layers.

    Args:
        context: of the run.
        clip: see `Lena.clip`.
        share: of the layers that have a rate of their own, drawn at random.
        share_seed: of that draw.
        clipped_state: see `Lena.clipped_state`.

    Raises:
        UserError: an unknown choice, a share outside [0, 1], or a negative seed.
    """
    if not 0 <= share <= 1:
        raise UserError(f"share={share}: it is a share of the layers, in [0, 1]")
    if share_seed < 0:
        raise UserError(f"share_seed={share_seed}: it must be at least 0")
    count = len(context.layers)
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[generator(share_seed, LAYERS).permutation(count)[: round(share * count)]] = True
    return Lena(
        learners=context.budget.learners,
        chosen=chosen,
        clip=clip,
        clipped_state=clipped_state,
    )
