"""A learning rate that follows another run's effective one: SSGD at the rate DPSGD really had."""

from math import isfinite

import numpy as np

from gossip import trace
from gossip.errors import UserError
from gossip.rates.base import RateContext
from gossip.rates.decay import Decay


def follow_trace(context: RateContext, run: str, *, window: int = 1) -> Decay:
    r"""The recorded alpha_e of a run as a factor of the base rate: their product is alpha_e.

    .. math::
        \frac{1}{\alpha_0} \max\Big(0,
        \frac{\sum_s \alpha_e(s) \|g(s)\|^2}{\sum_s \|g(s)\|^2}\Big), \qquad |s - t| < \text{window}

    Between recorded steps it is interpolated, after the last one it stays. A learning rate is not
    negative, though alpha_e of one step may be. The weights make it the rate of the steps' sum
    along g (docs/mathematics.md#effective-learning-rate); a window of 1 takes each step alone.

    Args:
        context: with the base rate alpha_0 and the budget of steps.
        run: folder of the run, its trace with alpha_e and, for a window above 1, grad_norm.
        window: steps on either side of t, and t itself.

    Raises:
        UserError: the run has no alpha_e, or alpha_0 is 0.
    """
    if context.lr <= 0:
        raise UserError(f"lr={context.lr:g}: --lr-trace is taken relative to it; give any --lr > 0")
    steps, rates = recorded(run, window)
    factors = np.maximum(0.0, rates) / context.lr
    total = context.budget.steps
    return lambda progress: float(np.interp(progress * total, steps, factors))


def remarks(run: str | None) -> list[str]:
    """A note where alpha_e of most steps of a run that is followed is interpolated."""
    if run is None:
        return []
    table = trace.load(run)
    rates = table["alpha_e"].to_numpy(zero_copy_only=False).astype(float)
    seen, steps = int(np.isfinite(rates).sum()), table.num_rows
    if 2 * seen >= steps:
        return []
    return [
        f"lr-trace {run}: alpha_e was recorded at {seen} of {steps} steps and is interpolated "
        "between them; record that run with --monitor-every 1"
    ]


def recorded(run: str, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps with an alpha_e, and its weighted mean about each of them.

    Raises:
        UserError: there are none.
    """
    table = trace.load(run)
    columns = {"step", "alpha_e"} | ({"grad_norm"} if window > 1 else set())
    if missing := sorted(columns - set(table.column_names)):
        raise UserError(
            f"--lr-trace {run}: its trace has no {' and '.join(missing)}; record that run with "
            "--monitor standard or full"
        )
    seen = {name: table[name].to_numpy(zero_copy_only=False).astype(float) for name in columns}
    good = np.array([all(map(isfinite, row)) for row in zip(*seen.values(), strict=True)], bool)
    if not good.any():
        raise UserError(f"--lr-trace {run}: its trace has no step with an alpha_e")
    steps, rates = seen["step"][good], seen["alpha_e"][good]
    if window == 1:
        return steps, rates
    weights = seen["grad_norm"][good] ** 2
    first = np.searchsorted(steps, steps - window, side="right")
    last = np.searchsorted(steps, steps + window, side="left")
    sums = [np.concatenate([[0.0], np.cumsum(each)]) for each in (rates * weights, weights)]
    above, below = (each[last] - each[first] for each in sums)
    return steps, np.divide(above, below, out=rates.copy(), where=below > 0)
