"""What the tuned tables are to decide, by criteria that were fixed before their runs were made.

Differences of mean test errors at the end, in points, with Welch's 95 % interval, not corrected for
being many: yes if the whole interval meets the criterion, no if none of it does, open otherwise.
"""

from collections.abc import Callable, Sequence

from experiments.common.claims import NEAR, Claim, Verdict
from experiments.common.statistics import Criterion
from experiments.lena.tuned.groups import Measured
from experiments.lena.tuned.plan import FULL, METHODS, SINGLE_WORKER, Cell, Size

Terms = Callable[[Size], Sequence[tuple[Cell, float]]]
"""Cells and the weights of their means."""

BETTER = Criterion(high=0.0)
KEPT = Criterion(high=NEAR)


def differs(terms: Terms, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A contrast of cells against a criterion."""

    def measured(made: Measured) -> Verdict:
        found = made.contrast(terms(made.size))
        if found is None:
            return None
        text = f"{found:+.2f} points"
        return criterion.verdict(found), text

    return measured


def against(ours: str, theirs: str, n: int | None = None) -> Terms:
    """One method less another, at the place of n among the study's, or the mean over them."""

    def terms(size: Size) -> Sequence[tuple[Cell, float]]:
        chosen = size.learners if n is None else (size.learners[n],)
        each = 1 / len(chosen)
        pairs = [[(Cell(ours, k), each), (Cell(theirs, k), -each)] for k in chosen]
        return [term for pair in pairs for term in pair]

    return terms


def from_the_single_worker(method: str, n: int) -> Terms:
    """A method at the place of n among the study's, less the single worker."""
    return lambda size: [(Cell(method, size.learners[n]), 1.0), (Cell(SINGLE_WORKER, 1), -1.0)]


def growth(method: str) -> Terms:
    """A method at the largest n less itself at the smallest."""
    return lambda size: [
        (Cell(method, max(size.learners)), 1.0),
        (Cell(method, min(size.learners)), -1.0),
    ]


def _pair(statement: str, ours: str, theirs: str) -> tuple[Claim[Measured], ...]:
    """A statement about the mean over n, and about each."""
    return (
        Claim(statement, "mean difference over n below 0", differs(against(ours, theirs), BETTER)),
        *(
            Claim(f"... at {said}", "below 0", differs(against(ours, theirs, place), BETTER))
            for place, said in PLACES
        ),
    )


PLACES = tuple((place, f"n = {FULL.learners[place]}") for place in (0, -1))
"""Of n in `Size.learners`; a smoke test has one n, in both."""

CLAIMS: tuple[Claim[Measured], ...] = (
    *_pair("LENA is more accurate than AdaScale", "lena", "adascale"),
    *_pair("LENA's state-aware warm-up is better than a fixed one", "lena", "lena-fixed"),
    *_pair("LENA is more accurate than LSW", "lena", "lsw"),
    *(
        Claim(
            f"{METHODS[name].label} keeps the single worker's accuracy at {said}",
            f"at most {NEAR:g} point above",
            differs(from_the_single_worker(name, place), KEPT),
        )
        for name in ("lena", "adascale", "lsw")
        for place, said in PLACES
    ),
    Claim(
        "LSW loses accuracy as n grows",
        "difference between the two n above 0",
        differs(growth("lsw"), Criterion(low=0.0)),
    ),
    Claim(
        "... LENA loses less",
        "its own growth less LSW's below 0",
        differs(
            lambda size: [*growth("lena")(size), *((c, -w) for c, w in growth("lsw")(size))],
            BETTER,
        ),
    ),
)
