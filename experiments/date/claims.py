"""The DATE paper's claims are judged by criteria that were fixed before the runs were made.

A claim is judged once all runs it is about are there.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, variance

from experiments.common.claims import Claim, Verdict
from experiments.date.groups import (
    lenet_runs,
    lipschitz_runs,
    lstm_runs,
    needle_runs,
    ratio_run,
    test_error,
)
from experiments.date.plan import TOGGLES
from experiments.date.rows import Row, parsed_ratios
from experiments.date.size import Study

LOST = 0.002
"""Test error that large batches may add on LeNet: 0.2 points."""
LSTM_LOST = 0.01
"""Test error that large batches may add on the LSTM, whose runs are shorter still: 1 point."""
NEEDLE = 0.01
"""Test error that a rate 0.6 % off must add for the best rate to be a needle: 1 point."""


def date_keeps_accuracy(rows: Sequence[Row], size: Study) -> Verdict:
    """DATE at the large batch against the manual schedule at the baseline's."""
    of = size.lenet
    return _pairs(rows, size, ("date", of.batch), ("manual", of.baseline), slack=LOST)


def date_beats_manual(rows: Sequence[Row], size: Study) -> Verdict:
    """DATE against the manual schedule, both at the large batch."""
    return _pairs(rows, size, ("date", size.lenet.batch), ("manual", size.lenet.batch), strict=True)


def every_toggle_helps(rows: Sequence[Row], size: Study) -> Verdict:
    """Fig. 10: plain, then one more at a time."""
    met, parts = [], []
    for solver, _ in size.lenet.solvers:
        runs = [lenet_runs(rows, size, solver, t, size.lenet.batch) for t in TOGGLES]
        if not all(runs):
            return None
        errors = [test_error(found[0]) for found in runs]
        met.append(all(b <= a for a, b in pairwise(errors)))
        parts.append(f"{solver} {percents(errors)}")
    return all(met), "; ".join(parts)


def lars_has_a_needle(rows: Sequence[Row], size: Study) -> Verdict:
    """Table 1: the best rate against those 0.6 % and 1.2 % away, over seeds."""
    found = needle_runs(rows, size)
    if not found:
        return None
    errors = {lr: [test_error(row) for row in runs] for lr, runs in found.items()}
    means = [fmean(values) for values in errors.values()]
    variances = [variance(values) for values in errors.values() if len(values) > 1]
    # Pooled: variances average without bias, standard deviations of few seeds come out too small.
    noise = math.sqrt(fmean(variances)) if variances else 0.0
    text = f"means {percents(means)}" + (
        f", standard deviation over seeds {100 * noise:.2f}" if variances else ""
    )
    return max(means) - min(means) > max(NEEDLE, 2 * noise), text


def peak_moves_right(rows: Sequence[Row], size: Study) -> Verdict:
    """Fig. 11: the epoch of the peak of L grows with the batch."""
    peaks = _peaks(rows, size)
    if peaks is None:
        return None
    values = list(peaks.values())
    rising = all(a < b for a, b in pairwise(values))
    text = ", ".join(f"B = {batch}: {peak:.2f}" for batch, peak in peaks.items())
    return rising and _all_peaked(rows, size), text + _unpeaked(rows, size)


def peak_is_linear(rows: Sequence[Row], size: Study) -> Verdict:
    """Fig. 11: as many times the epochs as the batch, within a factor of two."""
    peaks = _peaks(rows, size)
    if peaks is None:
        return None
    if min(peaks.values()) <= 0:
        return False, "a peak at the first step"
    small, large = min(peaks), max(peaks)
    times, wanted = peaks[large] / peaks[small], large / small
    text = f"{times:.1f} times for {wanted:g} times the batch{_unpeaked(rows, size)}"
    return wanted / 2 <= times <= 2 * wanted and _all_peaked(rows, size), text


def ratios_differ(rows: Sequence[Row], size: Study) -> Verdict:
    """Fig. 12: ratios differ between layers and change while training."""
    run = ratio_run(rows, size)
    found = parsed_ratios(run) if run else {}
    if not found:
        return None
    middles = [middle for _, middle, _ in found.values()]
    moves = max(max(f, last) / min(f, last) for f, _, last in found.values())
    text = (
        f"medians {min(middles):.2g} to {max(middles):.2g}; from start to end by up to "
        f"{moves:.1f} times"
    )
    return max(middles) >= 2 * min(middles) and moves >= 2, text


def lstm_keeps_accuracy(rows: Sequence[Row], size: Study) -> Verdict:
    """DATE at the largest batch against DATE at the baseline's."""
    of = size.lstm
    pair = [lstm_runs(rows, size, "date", batch) for batch in (of.baseline, of.largest)]
    if not all(pair):
        return None
    small, large = (fmean(map(test_error, runs)) for runs in pair)
    return large <= small + LSTM_LOST, f"{percents([small])}, then {percents([large])}"


def lstm_beats(rival: str) -> Callable[[Sequence[Row], Study], Verdict]:
    """DATE with no tuning beyond its baseline's against a rival tuned at every batch."""

    def measured(rows: Sequence[Row], size: Study) -> Verdict:
        met, parts = [], []
        for batch in sorted(size.lstm.batches):
            pair = [lstm_runs(rows, size, method, batch)[:1] for method in ("date", rival)]
            if not all(pair):
                return None
            ours, theirs = (test_error(runs[0]) for runs in pair)
            met.append(ours <= theirs)
            parts.append(f"{batch}: {percents([ours])} against {percents([theirs])}")
        return all(met), "; ".join(parts)

    return measured


def percents(values: Sequence[float]) -> str:
    """Shares as percentages, separated by blanks."""
    return " ".join(f"{100 * value:.2f}" for value in values)


def _pairs(
    rows: Sequence[Row],
    size: Study,
    ours: tuple[str, int],
    theirs: tuple[str, int],
    *,
    slack: float = 0.0,
    strict: bool = False,
) -> Verdict:
    """Verdict for all solvers: our mean test error is at most theirs, or is below it."""
    met, parts = [], []
    for solver, _ in size.lenet.solvers:
        pair = [lenet_runs(rows, size, solver, *side) for side in (ours, theirs)]
        if not all(pair):
            return None
        a, b = (fmean(map(test_error, runs)) for runs in pair)
        met.append(a < b if strict else a <= b + slack)
        parts.append(f"{solver} {percents([a])} against {percents([b])}")
    return all(met), "; ".join(parts)


def _all_peaked(rows: Sequence[Row], size: Study) -> bool:
    found = lipschitz_runs(rows, size).values()
    return all(row.peak_is_inside for runs in found for row in runs)


def _unpeaked(rows: Sequence[Row], size: Study) -> str:
    return "" if _all_peaked(rows, size) else "; L is largest at the end of a run: no peak"


def _peaks(rows: Sequence[Row], size: Study) -> dict[int, float] | None:
    """Mean epoch of the peak of L by batch size, ascending."""
    found = lipschitz_runs(rows, size)
    if not found:
        return None
    return {batch: fmean(row.peak_epoch for row in found[batch]) for batch in sorted(found)}


CLAIMS = (
    Claim(
        "DATE trains LeNet at B = 8192 without loss of accuracy",
        "each solver: mean test error at most 0.2 points above the manual schedule's at B_0",
        date_keeps_accuracy,
    ),
    Claim(
        "DATE beats the manual schedule at B = 8192",
        "each solver: mean test error below that of linear scaling with the manual schedule",
        date_beats_manual,
    ),
    Claim(
        "each part of DATE helps (Fig. 10)",
        "each solver: test error does not rise as the parts are switched on one after another",
        every_toggle_helps,
    ),
    Claim(
        "LARS's rate must be tuned to the percent (Table 1: 9.94 works, 10.0 does not)",
        "over rates 0.6 % apart, mean test errors differ by over 1 point and over twice the "
        "standard deviation over seeds",
        lars_has_a_needle,
    ),
    Claim(
        "the local Lipschitz constant peaks later, in epochs, for larger batches (Fig. 11)",
        "mean epoch of the peak rises from batch to batch; one in the last tenth of a run is none",
        peak_moves_right,
    ),
    Claim(
        "... in proportion to the batch, which is why LEGW's warm-up is",
        "from the smallest to the largest batch the epoch of the peak grows by as much, within a "
        "factor of 2",
        peak_is_linear,
    ),
    Claim(
        "layer ratios differ between layers and over time (Fig. 12)",
        "DATE on RMSProp: medians of layers differ by a factor of 2 or more, and one layer's ratio "
        "changes so much from start to end",
        ratios_differ,
    ),
    Claim(
        "on MNIST-LSTM DATE loses no accuracy up to B = 8192",
        "mean test error at the largest batch at most 1 point above that at the baseline's",
        lstm_keeps_accuracy,
    ),
    Claim(
        "DATE, tuned at the baseline only, matches Adam tuned at every batch",
        "seed 0: test error at most Adam's at every batch, Adam on the printed grid",
        lstm_beats("adam"),
    ),
    Claim(
        "... and tuned momentum",
        "the same against momentum",
        lstm_beats("momentum"),
    ),
)
