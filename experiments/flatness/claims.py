"""What the study is to decide, by criteria that were fixed before its runs were made.

Each compares two arms where both have the same training loss, at every level of it, by the mean
over the seeds with Student's 95 % interval: yes if the whole interval meets the criterion at all
levels, no if none of it does at one of them, open otherwise. They are not corrected for being many.
"""

from collections.abc import Callable
from functools import partial

from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, Estimate, every
from experiments.flatness.groups import LEAST, Measured
from experiments.flatness.plan import ARMS, SSGD

FLATTER = Criterion(high=0.9)
"""By at least 10 %."""
LOSS = Criterion(high=0.98)
"""By at least 2 %."""
POINTS = 0.1
"""Of error by which the mean model is better."""
EQUAL = Criterion(0.95, 1.05)
"""Losses that count as the same."""
BASIN = 0.05
"""Share of the loss that a barrier may have where learners are in one basin."""

At = Callable[[Measured, float], Estimate | None]
"""What is estimated at a level of the loss."""


def at_all_levels(
    estimate: At, criterion: Criterion, needs: tuple[tuple[int, str], ...]
) -> Callable[[Measured], Verdict]:
    """A criterion at every level.

    Args:
        estimate: what is to meet it.
        criterion: the bounds.
        needs: numbers of cells, and arms, that must have all their runs.
    """

    def measured(made: Measured) -> Verdict:
        if not all(made.complete(made.size.cells[cell], arm) for cell, arm in needs):
            return None
        words, texts = [], []
        for level in made.size.levels:
            found = estimate(made, level)
            word = "open" if found is None else criterion.verdict(found)
            words.append(word)
            numbers = f"fewer than {LEAST} pairs" if found is None else shown(found)
            texts.append(f"{level:g}: {numbers} {word}")
        return every(words), "; ".join(texts)

    return measured


def shown(found: Estimate) -> str:
    """Value and interval."""
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def ratio(cell: int, arm: str, name: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A number of an arm over that of SSGD."""

    def estimate(made: Measured, level: float) -> Estimate | None:
        here = made.size.cells[cell]
        return made.ratio((here, arm), (here, SSGD), level, name)

    return at_all_levels(estimate, criterion, ((cell, arm), (cell, SSGD)))


def fewer_errors(cell: int, arm: str) -> Callable[[Measured], Verdict]:
    """Points of test error of an arm less those of SSGD."""

    def estimate(made: Measured, level: float) -> Estimate | None:
        here = made.size.cells[cell]
        found = made.difference((here, arm), (here, SSGD), level, "test_error")
        return None if found is None else Estimate(*(100 * value for value in found))

    return at_all_levels(estimate, Criterion(high=-POINTS), ((cell, arm), (cell, SSGD)))


def relative(cell: int, arm: str, name: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A number of an arm over the loss of its own mean model."""

    def estimate(made: Measured, level: float) -> Estimate | None:
        return made.relative(made.size.cells[cell], arm, level, name)

    return at_all_levels(estimate, criterion, ((cell, arm),))


def larger_rate(name: str) -> Callable[[Measured], Verdict]:
    """A number of SSGD at the large rate over that at the small one."""

    def estimate(made: Measured, level: float) -> Estimate | None:
        small, large = made.size.cells
        return made.ratio((large, SSGD), (small, SSGD), level, name)

    return at_all_levels(estimate, FLATTER, ((0, SSGD), (1, SSGD)))


def of_arm(cell: int, arm: str) -> tuple[Claim[Measured], ...]:
    """What is asked of a way to train with DPSGD, at a rate."""
    against = partial(ratio, cell, arm)
    label = ARMS[arm].label
    return (
        Claim(
            f"{label}: compared at the same training loss",
            "loss over SSGD's within 5 %",
            against("loss", EQUAL),
        ),
        Claim("... its λ_max is smaller", "by 10 %", against("lambda_max", FLATTER)),
        Claim("... its trace is smaller", "by 10 %", against("trace", FLATTER)),
        Claim("... random steps raise its loss less", "by 10 %", against("random", FLATTER)),
        Claim("... a step up the gradient does", "by 10 %", against("ascent", FLATTER)),
        Claim("... its test loss is lower", "by 2 %", against("test_loss", LOSS)),
        Claim("... its test error is lower", f"by {POINTS:g} points", fewer_errors(cell, arm)),
        Claim(
            "... its learners are in one basin",
            "barrier below 5 % of the loss",
            relative(cell, arm, "barrier", Criterion(high=BASIN)),
        ),
        Claim(
            "... their mean is better than they are",
            "their loss over its own above 1.02",
            relative(cell, arm, "learners_loss", Criterion(low=1.02)),
        ),
    )


CONTROLS = (
    Claim("SSGD's λ_max is smaller at the larger rate", "by 10 %", larger_rate("lambda_max")),
    Claim("... so is its trace", "by 10 %", larger_rate("trace")),
)
"""That the measures see what is known to be there: large rates lead to flat places."""
OF_RATES = tuple(
    tuple(claim for arm in ARMS if arm != SSGD for claim in of_arm(cell, arm)) for cell in (0, 1)
)
"""For each of the two rates, the small one first."""
CLAIMS = (*OF_RATES[0], *OF_RATES[1], *CONTROLS)
