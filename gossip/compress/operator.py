"""What a compressor is: rows in, bytes out, and what those bytes stand for."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

Kind = Literal["contractive", "unbiased"]
"""Which of the two laws an operator keeps, see `Operator`."""


class Operator(Protocol):
    r"""C(x) = decode(encode(x)), row by row.

    Two kinds. **contractive**: E||C(x) - x||^2 <= (1 - delta) ||x||^2 with delta in (0, 1], for
    methods that remember what was left out. **unbiased**: E C(x) = x and E||C(x) - x||^2 <= omega
    ||x||^2; then C/(1 + omega) is contractive with delta = 1/(1 + omega).

    C(0) = 0. Random operators draw from the keys alone. A payload has the same size for all rows of
    a length, and holds all that decoding needs but that length and the dtype. A row with a number
    that is not finite, or too large for the operator's scale, decodes to one that is not finite, so
    that a run which diverges is seen to.
    """

    kind: ClassVar[Kind]
    leaves_out: ClassVar[bool]
    """Whether much of a row is left out, or drawn: then methods need a memory of it, and rows that
    are mixed may not travel so without one."""

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Payloads [rows, bytes] uint8 of x [rows, d].

        Args:
            x: floating point, of any strides.
            keys: of what is drawn for each row, [rows] int64.
        """
        ...

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """C(x), [rows, d] of a dtype, from payloads [rows, bytes]."""
        ...

    def size(self, d: int, itemsize: int) -> int:
        """Bytes of the payload of a row of d numbers of so many bytes each."""
        ...

    def check(self, d: int) -> None:
        """Refuse a length that the operator's options do not fit.

        Raises:
            UserError: they do not.
        """
        ...


@runtime_checkable
class Unbiased(Operator, Protocol):
    """An operator that is right on average: E C(x) = x."""

    def omega(self, d: int) -> float:
        """Such that E||C(x) - x||^2 <= omega ||x||^2 for every row of d numbers."""
        ...


@dataclass(frozen=True)
class Contracted:
    r"""C/(1 + omega) of an unbiased C, which contracts with delta = 1/(1 + omega).

    With tau = 1 + omega, E||C(x)/tau - x||^2 = E||C(x) - x||^2 / tau^2 + (1 - 1/tau)^2 ||x||^2 <=
    (1 - 1/tau) ||x||^2. The receiver scales: payloads are those of C.

    Reference: Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip
    algorithms with compressed communication", ICML 2019, arXiv 1902.00340, Section 3.5.
    """

    kind: ClassVar[Kind] = "contractive"
    leaves_out: ClassVar[bool] = True

    of: Unbiased
    """C."""

    def encode(self, x: Tensor, keys: Tensor) -> Tensor:
        """Those of C."""
        return self.of.encode(x, keys)

    def decode(self, payload: Tensor, d: int, dtype: torch.dtype) -> Tensor:
        """C(x)/(1 + omega)."""
        return self.of.decode(payload, d, dtype) / (1 + self.of.omega(d))

    def size(self, d: int, itemsize: int) -> int:
        """That of C."""
        return self.of.size(d, itemsize)

    def check(self, d: int) -> None:
        """As C."""
        self.of.check(d)


def compressed(operator: Operator, x: Tensor, keys: Tensor) -> Tensor:
    """C(x) without a message, [rows, d]."""
    return operator.decode(operator.encode(x, keys), x.shape[1], x.dtype)
