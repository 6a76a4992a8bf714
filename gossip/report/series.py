"""Series and figures of merit that table and figures draw from a trace."""

import numpy as np

from gossip.report.runs import Run

_MAX_WINDOW = 200


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Centred running mean over the finite ones of `values`; NaN where a value is not finite."""
    finite = np.isfinite(values)
    result = running_ratio(np.where(finite, values, 0.0), finite.astype(float), window)
    return np.where(finite, result, np.nan)


def running_ratio(numerator: np.ndarray, denominator: np.ndarray, window: int) -> np.ndarray:
    """Sum of `numerator` over that of `denominator`, in a window centred at each point."""
    kernel = np.ones(max(1, min(window, len(numerator))))
    if not len(numerator):
        return np.empty(0)
    over, under = (np.convolve(v, kernel, "same") for v in (numerator, denominator))
    return np.divide(over, under, out=np.full(len(over), np.nan), where=under > 0)


def window_of(count: int, parts: int) -> int:
    """A window of 1/`parts` of `count` points, odd so that it has a centre."""
    return 2 * (min(count // parts, _MAX_WINDOW) // 2) + 1


def smooth_loss(loss: np.ndarray) -> np.ndarray:
    """A training loss without the noise of its mini-batches."""
    return smooth(loss, window_of(len(loss), 40))


def smooth_log(values: np.ndarray) -> np.ndarray:
    """Running geometric mean of positive values."""
    return np.exp(smooth(np.log(values), window_of(len(values), 30)))


def smooth_rate(ratio: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Running mean of alpha_e/alpha with the weights of `alpha_ratio`."""
    return running_ratio(ratio * weight, weight, window_of(len(ratio), 12))


def last_step(runs: list[Run]) -> float:
    """The last step of all runs, at least 1."""
    return max([1.0, *(run.column("step").max(initial=0) for run in runs)])


def alpha_ratio(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """alpha_e/alpha where it was monitored: its steps, its values and their weights.

    The weight is alpha ||g||^2. A mean with these weights, sum(alpha_e ||g||^2) over
    sum(alpha ||g||^2), is steadier than a mean of ratios whose denominators come close to zero.
    """
    steps, alpha_e = run.column("step"), run.column("alpha_e")
    alpha, g = run.column("lr"), run.column("grad_norm")
    if not np.isfinite(alpha).any() and isinstance(run.setting("lr"), int | float):
        alpha = np.full(len(steps), float(run.setting("lr")))
    if not np.isfinite(g).any():
        g = np.ones(len(steps))
    there = np.isfinite(alpha_e) & np.isfinite(alpha) & np.isfinite(g) & (alpha > 0)
    return steps[there], alpha_e[there] / alpha[there], (alpha * g**2)[there]


def early_and_late(run: Run) -> tuple[float, float]:
    """Weighted mean of alpha_e/alpha over the first and the last fifth of its points."""
    _, ratio, weight = alpha_ratio(run)
    part = max(1, len(ratio) // 5)
    return _mean(ratio[:part], weight[:part]), _mean(ratio[-part:], weight[-part:])


def last_finite(values: np.ndarray) -> float:
    """The last of `values` that is a number; NaN if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if len(finite) else np.nan


def first_not_finite(run: Run) -> int | None:
    """Row of the first training loss that was recorded and is no number, or None."""
    if "train_loss" not in run.trace.column_names:
        return None
    recorded = ~run.trace["train_loss"].is_null().to_numpy()
    bad = np.flatnonzero(recorded & ~np.isfinite(run.column("train_loss")))
    return int(bad[0]) if len(bad) else None


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return float(values @ weights / weights.sum()) if weights.sum() > 0 else np.nan
