"""The table of the DPSGD paper's study read again, with intervals.

Its page has the criteria that were fixed before its runs, most of them all or nothing on five
seeds. What is said here was chosen after the runs: an effect, its 95 % interval, and whether all of
the interval, none or a part of it is on the side that the paper says.
"""

import math
from collections.abc import Callable

from experiments.common.claims import Verdict
from experiments.common.scale import Scale
from experiments.common.statistics import (
    Criterion,
    Estimate,
    difference,
    every,
    mean,
    share,
    stratified_difference,
)
from experiments.common.survival import Cell, alpha_50
from experiments.dpsgd import rows as dpsgd
from gossip.errors import UserError

RATES = (1.0, 1.25, 1.5, 2.0)
SURVIVES = 0.2
"""Test error below which a run has survived."""


def fig2(scale: Scale, algorithm: str, alpha: float) -> list[dpsgd.Row]:
    """The runs of Figure 2 on inputs in [0, 1], by seed."""
    wanted = ("fig2", algorithm, alpha, "unit")
    rows = dpsgd.read_csv(scale.results / "fig2.csv")
    found = [r for r in rows if (r.study, r.algorithm, r.alpha, r.inputs) == wanted]
    return sorted(found, key=lambda row: row.seed)


def survivors(scale: Scale, algorithm: str) -> list[Cell]:
    """How many of how many runs survive 1500 steps at each rate; none without runs."""
    cells = []
    for alpha in RATES:
        rows = fig2(scale, algorithm, alpha)
        alive = [_survived(row, scale) for row in rows]
        cells += [Cell(alpha, sum(alive), len(alive))] if alive else []
    return cells


def _survived(row: dpsgd.Row, scale: Scale) -> bool:
    return row.kind_fixed != "nan" and row.error_at[scale.steps] < SURVIVES


def larger_rates(scale: Scale) -> Verdict:
    """The rate that half of the runs survive, of DPSGD and of SSGD."""
    cells = [survivors(scale, name) for name in ("dpsgd", "ssgd")]
    if not all(len(found) == len(RATES) for found in cells):
        return None
    above = [[c[1:] for c in found if c.alpha > 1] for found in cells]
    more = stratified_difference(list(zip(*above, strict=True)))
    try:
        halves = " against ".join(form(alpha_50(found)) for found in cells)
    except UserError:
        halves = "outside the rates that were run"
    text = f"half survive up to α = {halves}; survival above α = 1: {form(more, '+.2f')}"
    return Criterion(low=0.0).verdict(more), text


def ssgd_fails(scale: Scale) -> Verdict:
    """Fewer than half of SSGD's runs end below the bound."""
    rows = fig2(scale, "ssgd", 1.0)
    if not rows:
        return None
    found = share(sum(row.kind != "nan" and row.final_error < SURVIVES for row in rows), len(rows))
    return Criterion(high=0.5).verdict(found), f"{form(found)} of {len(rows)} runs survive"


def best_error(scale: Scale) -> Verdict:
    """DPSGD's best error against the paper's, with a tenth of it to spare."""
    return _dpsgd(scale, lambda row: 100 * row.best_error, Criterion(high=2.3), "{} %")


def early_rate(scale: Scale) -> Verdict:
    """alpha_e / alpha in the first fifth."""
    return _dpsgd(scale, lambda row: row.ratio_early, Criterion(high=0.9), "{}")


def late_rate(scale: Scale) -> Verdict:
    """alpha_e / alpha in the last fifth."""
    return _dpsgd(scale, lambda row: row.ratio_late, Criterion(0.85, 1.15), "{}")


def correlation(scale: Scale) -> Verdict:
    """Rank correlation of alpha_e and sigma_w^2."""
    return _dpsgd(scale, lambda row: row.correlation, Criterion(high=0.0), "ρ = {}")


def _dpsgd(
    scale: Scale, number: Callable[[dpsgd.Row], float], criterion: Criterion, text: str
) -> Verdict:
    values = [number(row) for row in fig2(scale, "dpsgd", 1.0)]
    values = [value for value in values if math.isfinite(value)]
    if len(values) < 2:
        return None
    found = mean(values)
    return criterion.verdict(found), text.format(form(found))


TUNED = ((1.0, "eval", 0.0422), (1.5, "eval", 0.15), (1.5, "persist", 0.0178))
"""SSGD*'s best sigma_0, as its page has it: rate, mode, value."""


def ssgd_star(scale: Scale) -> Verdict:
    """Points of error that tuned SSGD* has more than DPSGD, of survivors, unpaired."""
    parts, words = [], []
    for alpha, mode, std in TUNED:
        chosen = [
            r
            for r in fig2_star(scale, alpha)
            if r.noise_mode == mode and math.isclose(r.noise_std, std, rel_tol=0.01)
        ]
        both = chosen, fig2(scale, "dpsgd", alpha)
        alive = [[row for row in rows if _survived(row, scale)] for rows in both]
        pair = [[100 * row.error_at[scale.steps] for row in rows] for rows in alive]
        if min(map(len, pair)) < 2:
            return None
        found = difference(*pair, paired=False)
        words.append(Criterion(low=0.0).verdict(found))
        counts = " and ".join(f"{len(a)} of {len(b)}" for a, b in zip(pair, both, strict=True))
        parts.append(f"α = {alpha:g}, {mode}: {form(found, '+.1f')} ({counts} survive)")
    return every(words), "; ".join(parts) + " points; σ_0 chosen on these seeds"


def fig2_star(scale: Scale, alpha: float) -> list[dpsgd.Row]:
    """SSGD*'s runs at a rate."""
    rows = dpsgd.read_csv(scale.results / "fig2.csv")
    return [r for r in rows if (r.algorithm, r.alpha, r.inputs) == ("ssgd-star", alpha, "unit")]


def form(found: Estimate, digits: str = ".2f") -> str:
    """Value and interval."""
    return format(found, digits)
