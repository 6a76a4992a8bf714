"""Rates that depend on time alone."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi

from gossip.rates.base import Observation


@dataclass(frozen=True)
class Schedule:
    r"""Base x warm-up x decay.

    .. math:: \alpha(t) = \alpha_0 \cdot \mathrm{warm}(t) \cdot \mathrm{decay}(t / T)
    """

    base: float
    """alpha_0."""
    warmup: Callable[[int], float]
    """Step t -> factor."""
    decay: Callable[[float], float]
    """Share of the budget done, t/T in [0, 1) -> factor."""

    def init(self) -> None:
        """A schedule has no state."""

    def update(self, observation: Observation, state: None) -> tuple[float, None]:
        """alpha(t)."""
        warm = self.warmup(observation.step)
        return self.base * warm * self.decay(observation.progress), state


def no_warmup() -> Callable[[int], float]:
    """1 from the first step."""
    return lambda step: 1.0


def fixed_warmup(steps: int, start: float) -> Callable[[int], float]:
    r"""Linear from `start` to 1 over `steps` steps.

    .. math:: \mathrm{warm}(t) = s + (1 - s) \min(1, (t + 1) / T_w)

    The first step already moves by one increment: with s = 0 no step is wasted at rate 0.

    Reference: Goyal et al., "Accurate, large minibatch SGD", arXiv 1706.02677, Section 2.2.
    """
    return lambda step: start + (1 - start) * min(1.0, (step + 1) / steps)


def constant() -> Callable[[float], float]:
    """1 all the way."""
    return lambda progress: 1.0


def step_decay(at: tuple[float, ...], factor: float) -> Callable[[float], float]:
    """factor^k after k of the milestones `at`, each a share of the budget."""
    return lambda progress: factor ** sum(progress >= milestone for milestone in at)


def exponential(factor: float) -> Callable[[float], float]:
    """factor^progress: from 1 smoothly to `factor` at the end of the budget (SPEC 5.6)."""
    return lambda progress: factor**progress


def cosine(floor: float) -> Callable[[float], float]:
    r"""From 1 to `floor` along half a cosine.

    .. math:: f + (1 - f) (1 + \cos(\pi \cdot \mathrm{progress})) / 2

    Reference: Loshchilov and Hutter, "SGDR", arXiv 1608.03983, without restarts.
    """
    return lambda progress: floor + (1 - floor) * (1 + cos(pi * progress)) / 2
