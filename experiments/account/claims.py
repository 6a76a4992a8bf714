"""What the study is to decide, by criteria that were fixed before its runs were made.

Each is about the mean over the runs of one number of a run, with Student's 95 % interval: yes if
the whole interval meets the criterion, no if none of it does, open otherwise. They are not
corrected for being many. A run that has diverged is left out and counted.
"""

import math
from collections.abc import Callable

from experiments.account.groups import Measured
from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, Estimate

TWICE = math.log10(2)
"""Decimal logarithm of the factor within which a form of the Hessian counts as right."""
SPREAD = math.log10(1.25)
"""Of that within which the prediction from W counts as right."""


def number(name: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A number of the runs that were measured in full meets a criterion."""

    def measured(made: Measured) -> Verdict:
        found = made.estimate(name)
        if found is None:
            return None
        lost = sum(row.lost for row in made.account)
        note = f" ({lost} lost)" if lost else ""
        return criterion.verdict(found), f"{found:.2f}{note}"

    return measured


def predicted(alpha: float, topology: str) -> Callable[[Measured], Verdict]:
    """sigma_w^2 of a topology over that of W = J is what W says."""

    def measured(made: Measured) -> Verdict:
        found = made.excess(alpha, topology)
        if found is None:
            return None
        factor = Estimate(*(10**value for value in found))
        return Criterion(-SPREAD, SPREAD).verdict(found), f"{factor:.2f}"

    return measured


def _row(statement: str, criterion: str, name: str, bounds: Criterion) -> Claim[Measured]:
    return Claim(statement, criterion, number(name, bounds))


def _within(factor: float) -> Criterion:
    return Criterion(-factor, factor)


RATES = (
    _row("Early, α_e is below α", "α_e/α below 0.9", "early_rate", Criterion(high=0.9)),
    _row(
        "... because gradients are taken where the learners are, not at their mean",
        "α_e/α less that of g_S below -0.1",
        "early_shift",
        Criterion(high=-0.1),
    ),
    _row(
        "... and not because of the mini-batches",
        "that of g_S within 0.1 of 1",
        "early_rate_s",
        Criterion(0.9, 1.1),
    ),
    _row("Late, α_e is above α", "α_e/α above 1", "late_rate", Criterion(low=1.0)),
    _row(
        "... because gradients are taken where the learners are",
        "α_e/α less that of g_S above 0",
        "late_shift",
        Criterion(low=0.0),
    ),
    _row("... because of the mini-batches", "that of g_S above 1", "late_rate_s", Criterion(1.0)),
    _row("α_e falls where σ_w² is large", "ρ below 0", "rho", Criterion(high=0.0)),
    _row("... at the same t", "ρ given t below 0", "rho_t", Criterion(high=0.0)),
    _row("... and the same ‖g‖", "ρ given t and ‖g‖ below 0", "rho_t_g", Criterion(high=0.0)),
    _row(
        "α_e falls where Δ⁽²⁾ is large, at the same t and ‖g‖",
        "ρ given t and ‖g‖ below 0",
        "rho_delta2_t_g",
        Criterion(high=0.0),
    ),
)
"""About alpha_e."""

NOISES = (
    _row(
        "Early, Δ⁽²⁾ is larger than Δ_S",
        "lg Δ⁽²⁾/Δ_S above 0",
        "early_delta2_over_s",
        Criterion(low=0.0),
    ),
    _row("Late, it is smaller", "the same below 0", "late_delta2_over_s", Criterion(high=0.0)),
    _row(
        "Δ = Δ_S + Δ⁽²⁾ (Eq. 5), early",
        "\\|Δ - Δ_S - Δ⁽²⁾\\|/Δ below 0.25",
        "early_gap",
        Criterion(high=0.25),
    ),
    _row("... late", "the same", "late_gap", Criterion(high=0.25)),
    _row(
        "Δ⁽²⁾ = α² n⁻² Σ ‖H δw_j‖² (Eq. 5), early",
        "lg of their ratio within lg 2 of 0",
        "early_hessian",
        _within(TWICE),
    ),
    _row("... late", "the same", "late_hessian", _within(TWICE)),
    _row(
        "Δ⁽²⁾ = α² ‖n⁻¹ Σ H_j δw_j‖², early",
        "the same",
        "early_hessian_minibatch",
        _within(TWICE),
    ),
    _row("... late", "the same", "late_hessian_minibatch", _within(TWICE)),
    _row(
        "Theorem 1's largest rate tells that this α trains",
        "lr_max/α above 0.5",
        "lr_max",
        Criterion(low=0.5),
    ),
)
"""About Delta, and Theorem 1."""


def spreads(alpha: float, names: tuple[str, ...]) -> tuple[Claim[Measured], ...]:
    """A row for each topology but the first."""
    return tuple(Claim(f"{name}", "within 1.25 of 1", predicted(alpha, name)) for name in names[1:])
