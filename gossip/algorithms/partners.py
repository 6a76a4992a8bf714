r"""Rounds after which a learner meets some of the others, and all theta are its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Rows
from gossip.algorithms.one_message import start_mix_together
from gossip.algorithms.outer import Met, Now, Outer
from gossip.algorithms.properties import Properties
from gossip.errors import UserError, one_of
from topologies.random_pairs import matching


@dataclass(frozen=True)
class NoLoCo(Outer):
    r"""NoLoCo: rounds that end with one partner, drawn anew, instead of an average over all.

    With S the averaging of this round's random pairs and D_j = x_j - theta_j,

    .. math::
        m \leftarrow \mu m + \eta\, S D + \gamma (S \theta - \theta), \qquad
        \theta \leftarrow \theta + m, \qquad x \leftarrow \theta

    Of an odd number of learners one stays alone. The mean of theta follows the heavy ball m <- mu m
    + eta mean(D), whatever the pairs; with S = 11^T/n it is `Outer` with form=heavy-ball.

    The learners' differences are stable in mean square only if gamma is not too large for mu: for
    many learners below 2, 1.82, 1.50, 1.02, 0.38 at mu = 0, 0.3, 0.5, 0.7, 0.9. Above it is
    refused.

    - sent: two rows to the partner every H steps
    - state: theta, m
    - W plays no part; pairs depend on (seed, round) alone
    - defaults: eta = gamma = 0.7, mu = 0.5, H = 50 (the authors' code)

    Reference: Kolehmainen et al., "NoLoCo: no-all-reduce low communication training method for
    large models", 2025, arXiv 2506.10911. The bound is ours.
    """

    every: int = 50
    """H, steps of a round."""
    eta: float = 0.7
    """eta, of what the pair has done."""
    mu: float = 0.5
    """mu, the momentum."""
    form: str = field(default="heavy-ball", init=False)
    moments: str = field(default="local", init=False)
    gamma: float = 0.7
    """gamma, of the way to the partner's theta."""
    seed: int = 0
    """Of the pairs."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if not (self.gamma > 0 and growth_of_differences(self.mu, self.gamma) < 1):
            raise UserError(
                f"gamma={self.gamma}: at mu={self.mu} learners drift apart; give a gamma above 0 "
                "and smaller than that, or a smaller mu"
            )

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """Every learner has its own theta, and can go on from anywhere."""
        return Properties(columns="any")

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes a partner."""
        return (phases.LocalGradient(), phases.Every(self.every, phases.Partner(2)))

    def meet(self, now: Now) -> Met:
        """At the end of a round swap theta and drift with the partner."""
        if now.t % self.every:
            return Met(now.x, now.rows)
        theta, m = now.rows["anchor"], now.rows["momentum"]
        pairs = _partners(now.comm.n, self.seed)(now.t // self.every)
        both, drift = start_mix_together(now.comm, (theta, now.x - theta), pairs)()
        m = self.mu * m + self.eta * drift + self.gamma * (both - theta)
        theta = theta + m
        return Met(theta, {"anchor": theta, "momentum": m})


@cache
def _partners(n: int, seed: int) -> Callable[[int], csr_array]:
    """S of round r."""
    return matching(n, seed=seed).matrix


def growth_of_differences(mu: float, gamma: float, q: float = 0.5) -> float:
    r"""By which differences of many learners grow in a round of NoLoCo, in mean square.

    The largest absolute eigenvalue of the recursion of E||theta||^2, E theta . m, E||m||^2 on
    differences, where E[(I - S)^T (I - S)] = E[I - S] = q there, q = n/(2 (n - 1)).
    """
    m2 = np.array([gamma**2 * q, -2 * mu * gamma * q, mu**2])
    product = np.array([-gamma * q, mu, 0.0])
    weights2 = np.array([1.0, 0.0, 0.0])
    step = np.array([weights2 + 2 * product + m2, product + m2, m2])
    return float(np.abs(np.linalg.eigvals(step)).max())


MOMENTA = ("inside", "outside")


@dataclass(frozen=True)
class Gasloc(Outer):
    r"""GASLoC: DiLoCo on any topology, an averaging by W in the place of the exact mean.

    With x the weights at the beginning of a round and y at its end,

    .. math::
        z = x + \eta (y - x), \qquad
        x \leftarrow W \bigl( z + \mu (z - z^-) \bigr) \text{ (inside) or }
        W z + \mu (z - z^-) \text{ (outside)}, \qquad z^- \leftarrow z

    z^- = x(0) at the start. Outside is as printed; then even with W = 11^T/n learners differ, by mu
    times how their z do. Inside it is DiLoCo with that W. With eta = 1, mu = 0, H = 1 both are ATC.

    - sent: one row along each edge every H steps, after the gradient
    - state: x, z^-
    - invariant: the mean follows DiLoCo's recursion for the mean of y
    - needs: a W that keeps the mean, with mu > 0 the same at every step: with mu = 0.9 learners
      drift apart on random matchings. With mu = 0 every H-th W(t) is met, so its period must have
      no divisor in common with H. With H > 1 no --mix-every, which H is
    - defaults: eta, mu and H of DiLoCo, inside (ours)

    Reference: GASLoC, "gossip algorithms for low-communication training", 2026, known to us from a
    transcription of its equations; the form inside is ours.
    """

    every: int = 100
    """H, steps of a round."""
    eta: float = 0.7
    """eta, the outer learning rate."""
    mu: float = 0.9
    """mu, the outer momentum."""
    form: str = field(default="nesterov", init=False)
    moments: str = field(default="local", init=False)
    momentum: str = "inside"
    """One of `MOMENTA`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        one_of(MOMENTA, self.momentum, "option momentum")

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """W is met every H steps only; a heavy ball of changing W may grow."""
        return Properties(static=self.mu > 0, mixes_every=self.every)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes a mixing."""
        return (phases.LocalGradient(), phases.Every(self.every, phases.Mix()))

    def start(self, x: Tensor) -> Rows:
        """The first round begins here."""
        return {"anchor": x, "before": x}

    def meet(self, now: Now) -> Met:
        """At the end of a round average with the neighbours."""
        if now.t % self.every:
            return Met(now.x, now.rows)
        theta = now.rows["anchor"]
        z = torch.lerp(theta, now.x, self.eta) if self.eta != 1 else now.x
        ahead = self.mu * (z - now.rows["before"])
        if self.momentum == "inside":
            x = now.comm.start_mix(z + ahead, now.w)()
        else:
            x = now.comm.start_mix(z, now.w)() + ahead
        return Met(x, {"anchor": x, "before": z})
