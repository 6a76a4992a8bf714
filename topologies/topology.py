"""The one concept: a topology is a pure function from the step to the mixing matrix W(t)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from topologies.matrices import canonical

REMEMBERED_STEPS = 4
"""Matrices of a random topology kept for the readers of the same step."""


class TopologyError(ValueError):
    """A user's mistake; one sentence: what was given, what is allowed, what to do."""


class UnknownTopologyError(TopologyError):
    """There is no topology of that name, for any number of learners."""


class TopologyWarning(UserWarning):
    """Something about a topology that is allowed, but that its user should know; one sentence."""


@dataclass(frozen=True, eq=False)
class Topology:
    """Who averages with whom at each step, for n learners.

    Every process evaluates `matrix` by itself; being a pure function of the step (and of the seed
    it was built with), it gives all of them the same W(t) without a message.
    """

    name: str
    """What it is called on the command line."""
    n: int
    """Number of learners."""
    period: int | None
    """Steps after which the sequence repeats; None if it never does (random topologies)."""
    mixing: Callable[[int], csr_array]
    """step -> W, shape [n, n]; asked once for each step of a period."""
    preserves_mean: Literal["always", "expectation", "never"] = "always"
    """Whether every W(t) is doubly stochastic, only the expectation of a random one, or neither:
    such directed graphs are for methods that weigh by mass, as push-sum does."""
    graph: nx.Graph | None = None
    """The undirected graph behind W, learners 0..n-1, where there is one."""
    expected_contraction: Callable[[], float] | None = None
    """lambda_2(E[W^T (I - J) W]) of a random topology where a formula is known."""
    _matrices: dict[int, csr_array] = field(default_factory=dict, init=False, repr=False)

    @property
    def is_random(self) -> bool:
        """Whether W(t) is drawn for each step, and never repeats."""
        return self.period is None

    def matrix(self, t: int) -> csr_array:
        """W(t), shape [n, n], float64, canonical; row j holds the weights receiver j applies.

        A periodic topology returns the same object for the same t mod period, so that a backend
        may keep a plan of messages for it. Do not write into it.
        """
        step = t if self.period is None else t % self.period
        if step not in self._matrices:
            # Only a memory of results: what is returned never depends on what was asked before.
            if self.is_random and len(self._matrices) >= REMEMBERED_STEPS:
                self._matrices.clear()
            self._matrices[step] = canonical(self.mixing(step))
        return self._matrices[step]

    def neighbours_in(self, j: int, t: int) -> NDArray[np.intp]:
        """The learners whose weights learner j receives at step t, sorted, without j."""
        w = self.matrix(t)
        senders = w.indices[w.indptr[j] : w.indptr[j + 1]]
        return senders[senders != j].astype(np.intp)

    def neighbours_out(self, j: int, t: int) -> NDArray[np.intp]:
        """The learners to which learner j sends its weights at step t, sorted, without j."""
        w = self.matrix(t)
        receivers = np.searchsorted(w.indptr, np.flatnonzero(w.indices == j), side="right") - 1
        return receivers[receivers != j].astype(np.intp)

    def messages_per_step(self, t: int) -> NDArray[np.int64]:
        """Messages each learner sends at step t, shape [n]; its mean is also the mean received."""
        w = self.matrix(t)
        return np.bincount(w.indices, minlength=self.n) - (w.diagonal() != 0)

    def bytes_per_step(self, t: int, message_bytes: float) -> NDArray[np.float64]:
        """Bytes each learner sends at step t, shape [n], for messages of `message_bytes`."""
        return np.multiply(self.messages_per_step(t), message_bytes, dtype=np.float64)
