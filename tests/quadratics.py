"""Quadratic problems whose learners have different data, and walks of algorithms on them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

import topologies
from gossip.algorithms import Gradient, State
from gossip.algorithms.base import NO_ROWS
from gossip.comm.stacked import Stacked
from gossip.task import Gradients

Matrices = Callable[[int], csr_array]


@dataclass(frozen=True)
class Problem:
    """f_j = ||A_j x - b_j||^2 / 2; `best` minimises their mean."""

    a: Tensor
    b: Tensor

    @property
    def n(self) -> int:
        return len(self.a)

    @property
    def d(self) -> int:
        return self.a.shape[2]

    @property
    def best(self) -> Tensor:
        hessian = torch.einsum("nij,nik->jk", self.a, self.a)
        return torch.linalg.solve(hessian, torch.einsum("nij,ni->j", self.a, self.b))

    @property
    def steepest(self) -> float:
        """The largest curvature of a learner."""
        return float(torch.linalg.matrix_norm(self.a, 2).max() ** 2)

    def at(self, x: Tensor) -> Tensor:
        """Gradients of all learners, each at its row."""
        residual = (self.a * x.unsqueeze(1)).sum(2) - self.b
        return (self.a * residual.unsqueeze(2)).sum(1)

    def gradient(self, x: Tensor) -> Gradients:
        rows = self.at(x.expand(self.n, -1))
        values = rows if len(x) == self.n else rows.mean(0, keepdim=True)
        return Gradients(values, values.sum(1))

    def start(self) -> Tensor:
        """A different point for every learner, [n, d]."""
        return torch.from_numpy(np.random.default_rng(9).standard_normal((self.n, self.d)))


def problem(n: int = 8, d: int = 6, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, d, d)) / np.sqrt(d) + np.eye(d)
    return Problem(torch.from_numpy(a), torch.from_numpy(3 * rng.standard_normal((n, d))))


def scalar(n: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Problem]:
    """f_j = h_j (x - c_j)^2 / 2: h, c and the problem."""
    rng = np.random.default_rng(seed)
    h, c = rng.uniform(0.5, 2, n), 3 * rng.standard_normal(n)
    root = np.sqrt(h)
    return (
        h,
        c,
        Problem(torch.from_numpy(root[:, None, None]), torch.from_numpy((root * c)[:, None])),
    )


def static(name: str, n: int = 8, **options: object) -> Matrices:
    return topologies.build(name, n, **options).matrix


def begin(algorithm, start: Tensor) -> State:
    """The state of learners that begin at different weights, [n, d]."""
    state = algorithm.init(start[0], len(start))
    make = getattr(algorithm, "start", lambda x: NO_ROWS)
    return state._replace(x=start.clone(), rows=make(start.clone()))


def steps(
    algorithm,
    gradient: Gradient,
    w: Matrices,
    start: Tensor,
    count: int,
    rate: Callable[[int], float] | float = 0.05,
) -> Iterator[State]:
    """The states after each step."""
    comm, state = Stacked(len(start)), begin(algorithm, start)
    for t in range(count):
        lr = rate(t) if callable(rate) else rate
        state, _ = algorithm.step(state, gradient, w(t), lambda *_, lr=lr: lr, comm)
        yield state


def weights(*args, **kwargs) -> Tensor:
    """x after each step, [steps, n, d]."""
    return torch.stack([state.x for state in steps(*args, **kwargs)])


def end(*args, **kwargs) -> State:
    return list(steps(*args, **kwargs))[-1]
