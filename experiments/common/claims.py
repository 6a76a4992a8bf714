"""A claim that a study tests has a criterion, fixed beforehand, and a verdict on its runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVarTuple

from experiments.common.markdown import table_row
from experiments.common.statistics import (
    Criterion,
    Word,
    share_difference,
    stratified_difference,
)

Measured = TypeVarTuple("Measured")
"""Types of the arguments that a study's criteria are evaluated on: its rows, and its size."""

Verdict = tuple[bool | Word, str] | None
"""Whether the criterion is met, or that it is open, and the numbers that decide it; None while runs
are missing."""

Counts = tuple[int, int]
"""How many of how many runs survived."""
Strata = Sequence[Counts]
"""At each rate, or of each net."""

REPRODUCES = """\
| the paper | criterion | measured | reproduces |
|---|---|---|---|
"""
"""Head of a table of a paper's statements."""

NEAR = 1.0
"""Points of error within which the single worker's accuracy counts as kept."""
TIE = 0.5
"""Points of error within which two means count as equal."""


@dataclass(frozen=True)
class Claim(Generic[*Measured]):
    """A statement that a study tests."""

    statement: str
    criterion: str
    measured: Callable[[*Measured], Verdict]
    """Evaluates the criterion."""


def of_survival(first: Strata | None, second: Strata | None, criterion: Criterion) -> Verdict:
    """Of the share of runs that survive, of the first less that of the second; unpaired.

    Near the edge of stability a seed controls nothing. All strata are counted together, as the
    criteria have it; of several, the interval that keeps them apart is shown, too. None while
    counts are.
    """
    if first is None or second is None:
        return None
    (a, m), (b, n) = (
        (sum(alive for alive, _ in counts), sum(runs for _, runs in counts))
        for counts in (first, second)
    )
    found = share_difference((a, m), (b, n))
    text = f"{a}/{m} - {b}/{n}: {found:+.2f}"
    if len(first) > 1:
        apart = stratified_difference(list(zip(first, second, strict=True)))
        text += f", rates apart [{apart.low:+.2f}, {apart.high:+.2f}]"
    return criterion.verdict(found), text


def table(head: str, claims: Sequence[Claim[*Measured]], *given: *Measured) -> str:
    """The claims as a table in Markdown: statement, criterion, numbers, and whether it holds.

    Args:
        head: the table's first two lines, with four columns.
        claims: a row each.
        *given: what the criteria are evaluated on.
    """
    return head + "".join(_row(claim, claim.measured(*given)) for claim in claims)


def _row(claim: Claim, verdict: Verdict) -> str:
    word, numbers = "-", "not run yet"
    if verdict is not None:
        met, numbers = verdict
        word = met if isinstance(met, str) else ("yes" if met else "no")
        word = "**no**" if word == "no" else word
    return table_row([claim.statement, claim.criterion, numbers, word])
