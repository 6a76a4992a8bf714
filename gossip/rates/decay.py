"""Decay: a factor of the share of the budget that is done."""

from collections.abc import Callable
from math import cos, inf, pi

from gossip.errors import UserError, one_of
from gossip.rates.base import RateContext

Decay = Callable[[float], float]
"""Share of the budget done before a step, in [0, 1) -> factor."""

REFERENCES = ("scaled", "paper-example")


def constant(context: RateContext) -> Decay:
    """1 all the way."""
    return lambda progress: 1.0


def step(
    context: RateContext, *, at: tuple[float, ...] = (0.5, 0.75), factor: float = 0.1
) -> Decay:
    """factor^k after k of the milestones `at`, each a share of the budget."""
    return lambda progress: factor ** sum(progress >= milestone for milestone in at)


def exponential(context: RateContext, *, factor: float = 0.01) -> Decay:
    """factor^progress: from 1 smoothly to `factor` at the end of the budget.

    Reference: LENA, WWW 2022, Section 4.1 (its d = 0.01); AdaScale, Section 4.
    """
    return lambda progress: factor**progress


def cosine(context: RateContext, *, factor: float = 0.0) -> Decay:
    r"""From 1 to `factor` along half a cosine.

    .. math:: f + (1 - f) (1 + \cos(\pi \cdot \mathrm{progress})) / 2

    Reference: Loshchilov and Hutter, "SGDR", arXiv 1608.03983, without restarts.
    """
    return lambda progress: factor + (1 - factor) * (1 + cos(pi * progress)) / 2


def polynomial(context: RateContext, *, factor: float = 0.0, power: float = 1.0) -> Decay:
    """From 1 to `factor` as (1 - progress)^power.

    Raises:
        UserError: the power is not positive.
    """
    if not 0 < power < inf:
        raise UserError(f"power={power}: it must be a positive number")
    return lambda progress: factor + (1 - factor) * max(0.0, 1 - progress) ** power


def roller_coaster(
    context: RateContext, *, min_lr: float = 1e-6, reference: str = "scaled"
) -> Decay:
    r"""DATE's decay: untouched while it warms up, then linear to 0 at the end of the budget.

    .. math:: \mathrm{decay}(i) = \max\Big(\frac{I - i}{(1 - w/E)\, I}, f\Big), \quad i = t + 1

    Args:
        context: I = E N / (n B) updates in E epochs, w of them warm-up (0 for a state-aware one,
            whose end is not known beforehand).
        min_lr: the least learning rate; f is its share of the scaled rate.
        reference: scaled: w is the warm-up of this run and the rate has no jump; paper-example:
            that of the baseline, as in the paper's worked example, which halves the rate at once.
            The paper prints the *current* epoch for E, an infinite rate.

    Raises:
        UserError: an unknown reference, or a negative least rate.

    Reference: You et al., SC 2019, Algorithm 1, line 8.
    """
    one_of(REFERENCES, reference, "reference of the decay")
    total, warmup = context.budget.steps, context.warmup
    length = warmup if reference == "scaled" else warmup / context.budget.scale
    if not 0 <= min_lr < inf:
        raise UserError(f"min_lr={min_lr}: it must be a number from 0 up")
    peak = context.lr * (context.nominal or 1.0)
    floor = min_lr / peak if peak else 0.0

    def decay(progress: float) -> float:
        # Rounded: whether an iteration is the last of the warm-up must not hang on the last bit.
        i = round(progress * total + 1, 9)
        if i < warmup or length >= total:
            return 1.0
        return max((total - i) / (total - length), floor)

    return decay
