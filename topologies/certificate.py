r"""Everything that decides how fast a topology averages, and what it costs.

For a static W the spectral gap says it. For a periodic sequence single steps are meaningless, and
the product over a period, ||W(tau-1) ... W(0) - J||_2, says it. For a random one it is
lambda_2(E[W^T (I - J) W]): E||deviation(t+1)||^2 is at most so many times ||deviation(t)||^2.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from topologies.check import is_connected, steps, sum_errors
from topologies.expectation import expected_lambda2
from topologies.matrices import canonical
from topologies.spectrum import DENSE, abs_lambda2, deviation_norm, is_symmetric
from topologies.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was measured about a topology; None where a number has no meaning for it."""

    name: str
    n: int
    period: int | None
    """Steps of a period; None for a random topology."""
    steps_examined: int
    """How many steps the errors, degrees and messages are taken over."""
    row_stochastic: bool
    row_error: float
    """Largest |row sum - 1|."""
    column_stochastic: bool
    column_error: float
    """Largest |column sum - 1|."""
    symmetric: bool
    """Whether every W(t) examined is."""
    connected: bool
    """Whether the union of the graphs of all steps examined is strongly connected."""
    connected_over: str
    degree_min: int
    """Least number of neighbours a learner receives from in a step."""
    degree_mean: float
    degree_max: int
    messages_per_step: float
    """Messages a learner sends per step, mean over learners and steps."""
    bytes_per_step: float | None
    """The same in bytes, if the size of a message was given."""
    sigma2: float
    """Largest second singular value of a single step (random: of the first steps)."""
    abs_lambda2: float | None
    """Second-largest |eigenvalue| of a static W."""
    gap: float | None
    """1 - abs_lambda2."""
    rho_dpsgd: float | None
    """abs_lambda2^2, the rho of the D-PSGD paper."""
    rho_prod: float | None
    """||(I - J) W(tau-1) ... W(0)||_2 over a period; None for a random topology."""
    expected_lambda2: float | None
    """lambda_2(E[W^T (I - J) W]) of a random topology."""
    p_random: float | None
    """1 - expected_lambda2."""
    contraction_method: str
    """Where the contraction comes from: exact, closed form, or Monte Carlo with its samples."""

    @property
    def contraction(self) -> float:
        """rho_prod, or expected_lambda2 of a random topology."""
        value = self.rho_prod if self.expected_lambda2 is None else self.expected_lambda2
        assert value is not None
        return value

    def as_dict(self) -> dict[str, Any]:
        """All fields and the contraction, as plain values."""
        return asdict(self) | {"contraction": self.contraction}


def certificate(topology: Topology, message_bytes: float | None = None) -> Certificate:
    """Measure a topology over its period, or over the first 64 steps of a random one.

    Args:
        topology: what to measure.
        message_bytes: size of one message, to count bytes.
    """
    examined = [topology.matrix(t) for t in steps(topology)]
    distinct = list({id(w): w for w in examined}.values())
    errors = [sum_errors(w) for w in distinct]
    row_error, column_error = max(r for r, _ in errors), max(c for _, c in errors)
    degrees = np.stack([np.diff(w.indptr) - (w.diagonal() != 0) for w in examined])
    over = "the period" if not topology.is_random else f"the first {len(examined)} steps"
    messages = float(degrees.mean())
    return Certificate(
        name=topology.name,
        n=topology.n,
        period=topology.period,
        steps_examined=len(examined),
        row_stochastic=row_error <= 1e-12 * topology.n,
        row_error=row_error,
        column_stochastic=column_error <= 1e-12 * topology.n,
        column_error=column_error,
        symmetric=all(is_symmetric(w) for w in distinct),
        connected=is_connected(_union(distinct)),
        connected_over=over,
        degree_min=int(degrees.min()),
        degree_mean=messages,
        degree_max=int(degrees.max()),
        messages_per_step=messages,
        bytes_per_step=None if message_bytes is None else messages * message_bytes,
        **_rates(topology, distinct),
    )


def _rates(topology: Topology, distinct: list[csr_array]) -> dict[str, Any]:
    """The fields of a certificate that say how fast it averages."""
    single = distinct
    if topology.is_random:
        single = distinct[: 4 if topology.n <= DENSE else 1]
    sigma2 = max(deviation_norm([w]) for w in single)
    lambda2 = None
    if topology.period == 1:
        lambda2 = sigma2 if is_symmetric(distinct[0]) else abs_lambda2(distinct[0])
    rho_prod, expected, method = None, None, "exact"
    if topology.period is None:
        expected, method = expected_lambda2(topology)
    elif topology.period == 1:
        rho_prod = sigma2
    else:
        rho_prod = _period_norm(topology)
    return {
        "sigma2": sigma2,
        "abs_lambda2": lambda2,
        "gap": None if lambda2 is None else 1 - lambda2,
        "rho_dpsgd": None if lambda2 is None else lambda2**2,
        "rho_prod": rho_prod,
        "expected_lambda2": expected,
        "p_random": None if expected is None else 1 - expected,
        "contraction_method": method,
    }


def _period_norm(topology: Topology) -> float:
    """deviation_norm of all steps of a period, without those where nobody talks."""
    assert topology.period is not None
    matrices = [topology.matrix(t) for t in range(topology.period)]
    talking = [w for w in matrices if w.nnz != topology.n or (w.diagonal() != 1).any()]
    return deviation_norm(talking or matrices[:1])


def _union(matrices: list[csr_array]) -> csr_array:
    union = matrices[0]
    for w in matrices[1:]:
        union = canonical(abs(union) + abs(w))
    return union
