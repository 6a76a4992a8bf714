"""What the study is to decide, by criteria that were fixed before its runs were made.

Each compares two arms where both have the same training loss, at every level of it, by the mean
over the seeds with Student's 95 % interval: yes if the whole interval meets the criterion at all
levels, no if none of it does at one of them, open otherwise. They are not corrected for being many.

A level is open, whatever its interval says, if the losses there are not the same (the whole
interval of their ratio in EQUAL), if more than MISSING pairs lack a run, if one side lost more than
UNEVEN runs more than the other, or if a number cannot be compared.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, Estimate, Word, every
from experiments.flatness.groups import Found, Measured, Place
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

At = Callable[[Measured, float], Found]
"""What is found at a level of the loss."""
Side = tuple[int, str]
"""Number of a rate, and an arm."""


def at_all_levels(
    find: At, criterion: Criterion, sides: tuple[Side, ...], same: At | None = None
) -> Callable[[Measured], Verdict]:
    """A criterion at every level.

    Args:
        find: what is to meet it.
        criterion: the bounds.
        sides: those that must have all their runs.
        same: the ratio of losses that must be within EQUAL, if any.
    """

    def measured(made: Measured) -> Verdict:
        if not all(made.complete(*_place(made, side)) for side in sides):
            return None
        words, texts = [], []
        for level in made.size.levels:
            found = find(made, level)
            word, reason = _judged(found, criterion), found.reason
            if same is not None and _judged(same(made, level), EQUAL) != "yes":
                word, reason = "open", reason or "losses are not the same"
            words.append(word)
            numbers = [] if found.estimate is None else [f"{found.estimate:.2f}"]
            said = ", ".join([*numbers, found.count, *([reason] if reason else [])])
            texts.append(f"{level:g}: {said}: {word}")
        return every(words), "; ".join(texts)

    return measured


def _judged(found: Found, criterion: Criterion) -> Word:
    if found.reason or found.estimate is None:
        return "open"
    return criterion.verdict(found.estimate)


def _place(made: Measured, side: Side) -> Place:
    return made.size.cells[side[0]], side[1]


def ratio(
    first: Side, second: Side, name: str, criterion: Criterion
) -> Callable[[Measured], Verdict]:
    """A number of the first over that of the second."""
    same = None if name == "loss" else _ratio(first, second, "loss")
    return at_all_levels(_ratio(first, second, name), criterion, (first, second), same)


def _ratio(first: Side, second: Side, name: str) -> At:
    def find(made: Measured, level: float) -> Found:
        return made.ratio(_place(made, first), _place(made, second), level, name)

    return find


def fewer_errors(first: Side, second: Side) -> Callable[[Measured], Verdict]:
    """Points of test error of the first less those of the second."""

    def find(made: Measured, level: float) -> Found:
        sides = _place(made, first), _place(made, second)
        found = made.difference(*sides, level, "test_error")
        if found.estimate is None:
            return found
        return replace(found, estimate=Estimate(*(100 * value for value in found.estimate)))

    same = _ratio(first, second, "loss")
    return at_all_levels(find, Criterion(high=-POINTS), (first, second), same)


def relative(side: Side, name: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A number of an arm over the loss of its own mean model."""

    def find(made: Measured, level: float) -> Found:
        return made.relative(_place(made, side), level, name)

    return at_all_levels(find, criterion, (side,))


def larger_rate(name: str) -> Callable[[Measured], Verdict]:
    """A number of SSGD at the large rate over that at the small one."""
    return ratio((1, SSGD), (0, SSGD), name, FLATTER)


def of_arm(cell: int, arm: str) -> tuple[Claim[Measured], ...]:
    """What is asked of a way to train with DPSGD, at a rate."""
    own, theirs = (cell, arm), (cell, SSGD)
    against = partial(ratio, own, theirs)
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
        Claim("... so does a step up the gradient", "by 10 %", against("ascent", FLATTER)),
        Claim("... its test loss is lower", "by 2 %", against("test_loss", LOSS)),
        Claim("... its test error is lower", f"by {POINTS:g} points", fewer_errors(own, theirs)),
        Claim(
            "... its learners are in one basin",
            "barrier below 5 % of the loss",
            relative(own, "barrier", Criterion(high=BASIN)),
        ),
        Claim(
            "... their mean is better than they are",
            "their loss over its own above 1.02",
            relative(own, "learners_loss", Criterion(low=1.02)),
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
