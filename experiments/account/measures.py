"""Numbers of one run, from its trace: by phase, and over the whole of it."""

import math

import numpy as np

from experiments.account.size import Size
from experiments.common.correlation import partial_rank_correlation
from gossip.report import Run


def account_measures(run: Run, size: Size) -> dict[str, float]:
    """All numbers of a run that was measured in full, by the name of the field of `Row`."""
    early, late = (_phase(run, *steps) for steps in (size.early, size.late))
    found = {"early_" + k: v for k, v in by_phase(early, size.alpha).items()}
    found |= {"late_" + k: v for k, v in by_phase(late, size.alpha).items()}
    return found | over_time(_phase(run, 1, size.steps), size.alpha)


def by_phase(columns: dict[str, np.ndarray], alpha: float) -> dict[str, float]:
    """Effective rates, parts of Delta and the Hessian's forms of a phase.

    Rates are weighted by ||g||^2, which makes them the progress along g over the progress that
    alpha would have made. What is a ratio of noises is a median of the steps.
    """
    weight = np.square(columns["grad_norm"])
    rate, rate_s = (
        float((columns[name] * weight).sum() / weight.sum() / alpha)
        for name in ("alpha_e", "alpha_e_s")
    )
    total, delta_s, delta2 = (columns[name] for name in ("delta_sgd", "delta_s", "delta2"))
    return {
        "rate": rate,
        "rate_s": rate_s,
        "shift": rate - rate_s,
        "delta2_over_s": _median(_log10(delta2 / delta_s)),
        "gap": _median(np.abs(total - delta_s - delta2) / total),
        "cross": _median(columns["delta_cross"] / total),
        "hessian": _median(_log10(columns["delta2_hessian"] / delta2)),
        "hessian_minibatch": _median(_log10(columns["delta2_hessian_minibatch"] / delta2)),
    }


def over_time(columns: dict[str, np.ndarray], alpha: float) -> dict[str, float]:
    """Rank correlations of alpha_e over the run, and Theorem 1's largest rate."""
    rate, spread, delta2, t, norm = (
        columns[name] for name in ("alpha_e", "sigma_w2", "delta2", "step", "grad_norm")
    )
    return {
        "rho": partial_rank_correlation(rate, spread),
        "rho_t": partial_rank_correlation(rate, spread, t),
        "rho_t_g": partial_rank_correlation(rate, spread, t, norm),
        "rho_delta2_t_g": partial_rank_correlation(rate, delta2, t, norm),
        "lr_max": _median(columns["lr_max"]) / alpha,
    }


def late_spread(run: Run, size: Size) -> float:
    """sigma_w^2 averaged over the measured steps of the second half."""
    columns = _phase(run, *spread_window(size))
    return float(columns["sigma_w2"].mean())


def spread_window(size: Size) -> tuple[int, int]:
    """The second half of a run whose spread is predicted."""
    return size.spread_steps // 2, size.spread_steps


def _phase(run: Run, first: int, end: int) -> dict[str, np.ndarray]:
    """The columns of the measured steps in [first, end)."""
    step, measured = run.column("step"), np.isfinite(run.column("sigma_w2"))
    chosen = measured & (first <= step) & (step < end)
    return {name: run.column(name)[chosen] for name in run.trace.column_names}


def _log10(ratio: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(ratio)


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else math.nan
