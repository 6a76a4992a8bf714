"""What the study is to decide, by criteria that were fixed before its runs were made.

Yes if the whole 95 % interval meets the criterion, no if none of it does, open otherwise. They are
not corrected for being many.
"""

from collections.abc import Callable

from experiments.common.claims import Claim, Verdict, of_survival
from experiments.common.statistics import Criterion
from experiments.language.groups import Measured
from experiments.language.plan import DPSGD, SSGD

MARGIN = 0.2
"""Difference of survival below which two count as the same."""


def survives_more(place: int) -> Callable[[Measured], Verdict]:
    """More of DPSGD's runs survive than of SSGD's, over all peaks, at a warm-up of the size."""

    def measured(made: Measured) -> Verdict:
        warmup = made.size.warmups[place]
        counts = made.counts(DPSGD, warmup), made.counts(SSGD, warmup)
        return of_survival(*counts, Criterion(low=0.0))

    return measured


def shorter(arm: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """Survival of an arm with the shortest warm-up less that with the longest."""

    def measured(made: Measured) -> Verdict:
        longest, *_, shortest = made.size.warmups
        counts = made.counts(arm, shortest), made.counts(arm, longest)
        return of_survival(*counts, criterion)

    return measured


def best_is_better(place: int) -> Callable[[Measured], Verdict]:
    """DPSGD's test loss is below SSGD's, each at its best peak."""

    def measured(made: Measured) -> Verdict:
        found = made.gain(DPSGD, SSGD, made.size.warmups[place])
        if found is None:
            return None
        text = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
        return Criterion(high=0.0).verdict(found), text

    return measured


LENGTHS = ("longest", "middle", "shortest")
CLAIMS = (
    *(
        Claim(
            f"With the {length} warm-up DPSGD bears peaks that SSGD does not",
            "survival over all peaks, DPSGD - SSGD above 0",
            survives_more(place),
        )
        for place, length in zip((0, -2, -1), LENGTHS, strict=True)
    ),
    Claim(
        "SSGD needs the longest warm-up",
        f"survival with the shortest less that with the longest below -{MARGIN:g}",
        shorter(SSGD, Criterion(high=-MARGIN)),
    ),
    Claim("DPSGD does not", f"above -{MARGIN:g}", shorter(DPSGD, Criterion(low=-MARGIN))),
    *(
        Claim(
            f"With the {length} warm-up, each at its best peak, DPSGD's test loss is lower",
            "difference below 0",
            best_is_better(place),
        )
        for place, length in zip((0, -2, -1), LENGTHS, strict=True)
    ),
)
