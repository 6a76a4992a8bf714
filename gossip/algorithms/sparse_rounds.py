r"""Rounds of which a few numbers are sent: the largest ones, or random ones."""

import math
from dataclasses import dataclass, field
from functools import lru_cache, partial

import torch
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import NO_ROWS, Rows
from gossip.algorithms.bounds import share_at_most_one
from gossip.algorithms.compressed import WithCompressor, keys, share_of_row
from gossip.algorithms.outer import Met, Now, Outer
from gossip.algorithms.properties import Properties
from gossip.errors import UserError, one_of
from gossip.streams import MASK, generator
from topologies.matrices import average

everybody = lru_cache(average)
"""11^T/n, the same object for the same n: message plans are kept by identity."""


@dataclass(frozen=True)
class SparseLoCo(WithCompressor, Outer):
    r"""SparseLoCo: rounds whose pseudo-gradients are compressed, and what is left out remembered.

    .. math::
        e_j \leftarrow \beta e_j + \theta - x_j, \qquad q_j = C(e_j), \qquad
        e_j \leftarrow e_j - q_j, \qquad \theta \leftarrow \theta - \eta \frac1n \sum_j q_j

    With C the identity it is `Outer` without momentum, whatever beta. With beta < 1 and few numbers
    kept, less is delivered than was done.

    - sent: C of one row to everybody every H steps
    - state: theta and v, the same rows for all, and e
    - invariant: with beta = 1 all q and e together are all Delta
    - W plays no part
    - defaults: H = 30, eta = 0.4 without momentum, beta = 0.95, 1/64 of the numbers (the authors',
      who take that of every 64x64 block and send 2 bits of each; here it is of all)

    Reference: Sarfi, Therien, Lidin, Belilovsky, "Communication efficient LLM pre-training with
    SparseLoCo", 2025, arXiv 2508.15706.
    """

    every: int = 30
    """H, steps of a round."""
    eta: float = 0.4
    """eta, the outer learning rate."""
    compressor: str = "top-k:0.015625"
    """The operator and its numbers."""
    beta: float = 0.95
    """beta, in [0, 1]: what is kept of what was left out."""
    seed: int = 0
    """Of operators that draw: addressed by (seed, learner, step)."""
    moments: str = field(default="local", init=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        self.operator  # noqa: B018 - refuses a wrong text now
        share_at_most_one("beta", self.beta)

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """A payload is sent as it is."""
        return Properties(
            columns="any", one_rate=self.form == "slowmo", survives=False, rounds=False
        )

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes a payload for everybody."""
        payload = phases.AllGather(share_of_row(self.operator))
        return (phases.LocalGradient(), phases.Every(self.every, payload))

    def start(self, x: Tensor) -> Rows:
        """Nothing has been left out."""
        return {**super().start(x), "error": torch.zeros_like(x)}

    def agree(self, now: Now) -> tuple[Tensor, Rows]:
        """Send the largest of what has been done; remember the rest."""
        theta = now.rows["anchor"]
        error = self.beta * now.rows["error"] + (theta - now.x)
        payload = self.operator.encode(error, keys(self.seed, now.t, 0, now.comm))
        decode = partial(self.operator.decode, d=error.shape[1], dtype=error.dtype)
        mean = now.comm.start_mix(payload, everybody(now.comm.n), decode)()
        return theta - mean, {"error": error - decode(payload)}


SELECTORS = ("random", "in-turn")


@dataclass(frozen=True)
class Sparta(Outer):
    r"""SPARTA: at every step a few coordinates, the same for all, become their mean.

    .. math::
        x_j \leftarrow x_j + u_j, \qquad
        x_{j,i} \leftarrow \frac1n \sum_k x_{k,i} \text{ for i in a random set of } p d

    Nobody sends which: the set depends on (seed, step). Drawn anew at each step, or in-turn: all in
    a random order, each once in 1/p steps. The mean moves by the mean increment, exactly. With p =
    1 it is ATC with W = 11^T/n. Without curvature and with gradients of variance s^2 per coordinate
    sigma_w^2 is alpha^2 s^2 (1 - 1/n) (1 - p)/p of each coordinate, after the averaging.

    - sent: an average of p rows at every step
    - state: nothing
    - W plays no part
    - defaults: p = 0.005 (the authors')

    Reference: Beton et al., "Improving the efficiency of distributed training using sparse
    parameter averaging", 2025 (EXO Labs).
    """

    every: int = 1
    """Steps from one averaging to the next."""
    eta: float = field(default=1.0, init=False)
    mu: float = field(default=0.0, init=False)
    form: str = field(default="heavy-ball", init=False)
    moments: str = field(default="local", init=False)
    share: float = 0.005
    """p, in (0, 1]."""
    selector: str = "random"
    """One of `SELECTORS`."""
    seed: int = 0
    """Of the set of coordinates."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise UserError(f"share={self.share}: it is a share of the coordinates, in (0, 1]")
        one_of(SELECTORS, self.selector, "option selector")

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """Learners have nothing in common but the set."""
        return Properties(columns="any")

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and an average of some coordinates."""
        return (phases.LocalGradient(), phases.Every(self.every, phases.Mean(self.share)))

    def start(self, x: Tensor) -> Rows:
        """Nothing is kept."""
        return NO_ROWS

    def meet(self, now: Now) -> Met:
        """Average the coordinates of this step."""
        if now.t % self.every:
            return Met(now.x, NO_ROWS)
        where = self.coordinates(now.t // self.every - 1, now.x.shape[1]).to(now.x.device)
        x = now.x.clone()
        x[:, where] = now.comm.mean(now.x[:, where])
        return Met(x, NO_ROWS)

    def coordinates(self, r: int, d: int) -> Tensor:
        """The set of the r-th averaging: p d of them, at least one; in turn the last may be fewer.

        Returns:
            Indices, int64.
        """
        k = max(1, round(self.share * d))
        if self.selector == "random":
            drawn = generator(self.seed, MASK, r).choice(d, k, replace=False, shuffle=False)
            return torch.from_numpy(drawn).sort().values
        cycle, turn = divmod(r, math.ceil(d / k))
        return _order(self.seed, cycle, d)[turn * k : (turn + 1) * k]


@lru_cache(maxsize=4)
def _order(seed: int, cycle: int, d: int) -> Tensor:
    """All coordinates in the order of a cycle."""
    return torch.from_numpy(generator(seed, MASK, cycle).permutation(d))
