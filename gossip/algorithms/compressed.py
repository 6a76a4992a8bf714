r"""What methods with compressed messages share: the operator, its payloads and their way.

C is an operator of `gossip.compress`, named by the option ``compressor`` as top-k:0.01. The mean of
the weights moves by the mean increment whatever C leaves out, for what is added to one learner is
taken from others. Averaging C(w) itself would lose the mean, and w + (W - I) C(w) stalls.

What is left out is remembered, and has to be less than what there was: E||C(x) - x||^2 < ||x||^2.
So of an unbiased operator C/(1 + omega) is taken (`gossip.compress.operator.Contracted`), but for
DCD and ECD, which ask for the expectation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Method, State
from gossip.algorithms.properties import Properties
from gossip.comm.base import Communicator, Pending
from gossip.compress import Operator, contraction, operator
from gossip.errors import UserError
from gossip.optim.flat import FlatOptimizer
from gossip.streams import COMPRESSION, generator
from gossip.task.layers import Layer

LARGE = 1_000_000
"""Numbers of a model from which a pattern takes the share of a row that a payload is."""


def share_of_row(operator: Operator) -> float:
    """What a payload is of a row of many float32 numbers."""
    return operator.size(LARGE, 4) / (4 * LARGE)


def length(layers: Sequence[Layer]) -> int:
    """Numbers of a row with these layers; `LARGE` where they are not known."""
    return layers[-1].stop if layers else LARGE


def keys(seed: int, t: int, number: int, comm: Communicator) -> Tensor:
    """Of payload `number` in step t of the hosted learners, for operators that draw, [local]."""
    draws = (generator(seed, COMPRESSION, j, t, number) for j in comm.hosted)
    return torch.tensor([int(own.integers(2**63)) for own in draws])


@dataclass(frozen=True)
class WithCompressor:
    """What methods with an option `compressor` have in common."""

    contracts: ClassVar[bool] = True
    """Whether C has to be a contraction, and is scaled to be one."""

    compressor: str
    """The operator and its numbers."""

    @cached_property
    def operator(self) -> Operator:
        """C."""
        return contraction(self.compressor) if self.contracts else operator(self.compressor)

    def check(self, d: int) -> None:
        """Refuse an operator that does not fit a model of d numbers.

        Raises:
            UserError: it does not.
        """
        self.operator.check(d)

    def payload_bytes(self, d: int, itemsize: int) -> int:
        """Of a message."""
        return self.operator.size(d, itemsize)


@dataclass(frozen=True)
class CompressedMethod(WithCompressor, Method):
    """A method whose messages are payloads of an operator."""

    properties: ClassVar[Properties] = Properties(
        columns="always", static=True, leaves_out=False, rounds=False
    )
    per_step: ClassVar[int] = 1
    """Payloads that leave in a step."""

    compressor: str = "top-k:0.01"
    """The operator and its numbers."""
    gamma: float = 0.1
    """gamma, in (0, 1]: how far a step goes towards the neighbours' estimates."""
    seed: int = 0
    """Of operators that draw: addressed by (seed, learner, step)."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        self.operator  # noqa: B018 - refuses a wrong text now
        if not 0 < self.gamma <= 1:
            raise UserError(f"gamma={self.gamma}: it is a share, in (0, 1]")

    @property
    def share(self) -> float:
        """What a payload is of a row of many float32 numbers."""
        return self.per_step * share_of_row(self.operator)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A payload's share of a row, after the gradient."""
        return (phases.LocalGradient(), phases.Mix(self.share))

    def payload_bytes(self, d: int, itemsize: int) -> int:
        """Sent along each edge in a step."""
        return self.per_step * super().payload_bytes(d, itemsize)

    def send(self, x: Tensor, w: csr_array, t: int, comm: Communicator) -> tuple[Tensor, Pending]:
        """C(x) of the hosted learners, and W C(x) on its way: of `per_step` rows side by side."""
        parts = x.tensor_split(self.per_step, dim=1)
        payloads = [
            self.operator.encode(part, keys(self.seed, t, number, comm))
            for number, part in enumerate(parts)
        ]
        payload = torch.cat(payloads, dim=1)
        decode = partial(self._decode, d=parts[0].shape[1], dtype=x.dtype)
        return decode(payload), comm.start_mix(payload, w, decode)

    def _decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        parts = payload.tensor_split(self.per_step, dim=1)
        return torch.cat([self.operator.decode(part, d, dtype) for part in parts], dim=1)


@dataclass(frozen=True)
class Estimating(CompressedMethod):
    """A method whose learners keep estimates of each other's weights, and are sent corrections."""

    def init(self, x: Tensor, local: int) -> State[FlatOptimizer]:
        """All learners start from x [d], and know it of each other."""
        rows = x.repeat(local, 1)
        known = {"estimate": rows, "neighbours": rows}
        return State(0, rows, self.optimizer(), {**self.start(rows), **known})
