"""D^2, which is exact diffusion, and EDM: gossip without the bias of different data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import flat
from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Gradient, LearningRate, Method, Rows, State, Step
from gossip.algorithms.bounds import share_below_one
from gossip.algorithms.derived import above
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator
from gossip.errors import one_of
from gossip.optim.flat import FlatOptimizer

LEAST = -1 / 3
"""At and below this eigenvalue of W the recursion diverges."""
LAZY = ("auto", "off")
_enough: Callable[[csr_array], csr_array] = above(LEAST)


@dataclass(frozen=True)
class D2(Method):
    r"""D^2, exact diffusion: what the neighbours' averaging undid of a step is given back.

    .. math::
        w_j(t+1) = \sum_k W_{jk} (w_k(t) + u_k + c_k), \qquad
        c_j(t+1) = w_j(t+1) - w_j(t) - u_j, \qquad c_j(0) = 0

    which for u = -alpha g and constant alpha is w(t+1) = W (2 w(t) - w(t-1) - alpha (g(t) -
    g(t-1))). The increment itself is kept, so that the mean moves by the mean increment also where
    alpha changes. At a fixed point all learners are at the minimum of the mean loss, whatever
    their data.

    - sent: one row along each edge, after the gradient
    - state: c
    - needs: the same symmetric W at every step, least eigenvalue above -1/3. With ``lazy="auto"``
      W is (1 - omega) I + omega W, omega = min(1, 0.95 * 4 / (3 (1 - lambda_n))), which is W where
      that holds with a margin; with ``"off"`` it is W, and refused where it diverges.
    - invariants: mean(w) moves by mean(u), at every step and for any alpha(t)

    References: Tang et al., "D2: decentralized training over decentralized data", ICML 2018,
    arXiv 1803.07068; Yuan, Ying, Zhao, Sayed, "Exact diffusion for distributed optimization and
    learning", 2019, arXiv 1702.05122.
    """

    pattern: ClassVar[phases.Pattern] = (phases.LocalGradient(), phases.Mix())

    lazy: str = "auto"
    """auto, or off."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(LAZY, self.lazy, "option lazy")

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """The bound holds by itself where W is made lazy."""
        return Properties(
            columns="always",
            symmetric=True,
            static=True,
            rounds=False,
            least_eigenvalue=LEAST if self.lazy == "off" else None,
        )

    # pyrefly: ignore[bad-override]
    def flat_spread(self, w: csr_array) -> float | None:
        """Stationary variance without curvature; see `gossip.algorithms.flat`."""
        return flat.exact_diffusion(self._mixing(w))

    def _mixing(self, w: csr_array) -> csr_array:
        """W, or as much of it as there may be."""
        return w if self.lazy == "off" else _enough(w)

    def start(self, x: Tensor) -> Rows:
        """Nothing to give back yet."""
        return {"correction": torch.zeros_like(x)}

    def step(
        self,
        state: State[FlatOptimizer],
        gradient: Gradient,
        w: csr_array,
        rate: LearningRate,
        comm: Communicator,
    ) -> tuple[State[FlatOptimizer], Step]:
        """Step at the own weights, average with what is to be given back."""
        gradients = gradient(state.x)
        lr = rate(state.x, gradients)
        direction, more = self._direction(gradients.values, state.rows)
        stepped = state.optimizer.step(state.x, direction, lr)
        mixing = comm.start_mix(stepped + state.rows["correction"], self._mixing(w))
        x_next = mixing()
        rows = {"correction": x_next - stepped, **more}
        return (
            State(state.step + 1, x_next, state.optimizer, rows),
            Step(state.x, gradients.values, gradients.losses, x_next, lr),
        )

    def _direction(self, g: Tensor, rows: Rows) -> tuple[Tensor, Rows]:
        return g, {}


@dataclass(frozen=True)
class Edm(D2):
    r"""Exact diffusion with momentum: D^2 along an averaged gradient.

    .. math:: m_j \leftarrow \beta m_j + (1 - \beta) g_j, \qquad u_j = -\alpha m_j

    and then as `D2`, which it is for beta = 0. The momentum is local and damped, so that alpha
    keeps its size whatever beta.

    - sent: one row along each edge, after the gradient
    - state: c, m
    - needs: as `D2`; plain SGD
    - defaults: beta 0.9 (ours)

    Reference: Hu, Chen, Liu, Mao, "A bias-correction decentralized stochastic gradient algorithm
    with momentum acceleration", 2025, arXiv 2501.19082.
    """

    # pyrefly: ignore[bad-override]
    flat_spread: ClassVar[None] = None

    beta: float = 0.9
    """beta, in [0, 1)."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        share_below_one("beta", self.beta)

    @property
    # pyrefly: ignore[bad-override]
    def properties(self) -> Properties:
        """Those of D^2, with a momentum."""
        return Properties(
            columns="always",
            symmetric=True,
            static=True,
            rounds=False,
            own_momentum=True,
            leaves_out=False,
            least_eigenvalue=LEAST if self.lazy == "off" else None,
        )

    def start(self, x: Tensor) -> Rows:
        """Nothing to give back, and no momentum."""
        return {"correction": torch.zeros_like(x), "momentum": torch.zeros_like(x)}

    def _direction(self, g: Tensor, rows: Rows) -> tuple[Tensor, Rows]:
        m = self.beta * rows["momentum"] + (1 - self.beta) * g
        return m, {"momentum": m}
