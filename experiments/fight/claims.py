"""What the study is to decide, by criteria that were fixed before its runs were made.

All intervals are of 95 %: yes if the whole interval meets the criterion, no if none of it does,
open otherwise. They are not corrected for being many. The verdict on H1 is the first line of
`EDGE_CLAIMS`, on H5 those of `OVERALL`; all others say where it comes from.
"""

from collections.abc import Callable, Sequence
from functools import partial

from experiments.common import survival
from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, share
from experiments.fight.doubling import doubled
from experiments.fight.groups import Contrast, Measured, Term, contrast
from experiments.fight.methods import COMPLETE, GRAPHS, METHODS, SSGD
from experiments.fight.size import FULL, Cell, Size
from gossip.errors import UserError

MARGIN = 0.2
"""Points of test error below which two tuned methods count as equally good."""
STEP = 0.25
"""Difference of two alpha_50 below which they count as the same: one step of the grid."""
PAPER = 1.0
"""The DPSGD paper's learning rate on MNIST."""


def bears(ours: str, theirs: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """The difference of their alpha_50, with a bootstrap's interval."""

    def measured(made: Measured) -> Verdict:
        cells = [made.curve(name) for name in (ours, theirs)]
        if cells[0] is None or cells[1] is None:
            return None
        try:
            found = survival.alpha_50_difference(cells[0], cells[1])
        except UserError:
            return "open", "half survive outside the rates that were run"
        first, second = (survival.fit(each).alpha_50 for each in (cells[0], cells[1]))
        return criterion.verdict(found), f"{first:.2f} - {second:.2f}: {found:+.2f}"

    return measured


def survives(method: str, alpha: float, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """The share of its runs that survive a rate, with Wilson's interval."""

    def measured(made: Measured) -> Verdict:
        cells = made.curve(method)
        if cells is None:
            return None
        (cell,) = (each for each in cells if each.alpha == alpha)
        return _share(cell.survived, cell.runs, criterion)

    return measured


def _share(survived: int, runs: int, criterion: Criterion) -> Verdict:
    found = share(survived, runs)
    text = f"{survived} of {runs}: [{found.low:.2f}, {found.high:.2f}]"
    return criterion.verdict(found), text


def errs(
    terms: Callable[[Size], Sequence[Term]], criterion: Criterion
) -> Callable[[Measured], Verdict]:
    """A contrast of mean test errors, with Welch's interval.

    Of survivors: a verdict for the side that lost more runs in any of the cells is open.
    """

    def measured(made: Measured) -> Verdict:
        try:
            found = made.contrast(terms(made.size))
        except UserError:
            return "open", "fewer than two runs of a method survived at its best rate"
        return None if found is None else _word(found, criterion)

    return measured


def _word(found: Contrast, criterion: Criterion) -> Verdict:
    word = criterion.verdict(found.estimate)
    if (word == "yes" and any(ours > theirs for ours, theirs in found.lost)) or (
        word == "no" and any(theirs > ours for ours, theirs in found.lost)
    ):
        word = "open"
    ours, theirs = map(sum, zip(*found.lost, strict=True))
    lost = f"; lost: {ours} and {theirs} runs" if ours or theirs else ""
    return word, f"{found.estimate:+.2f} points{lost}"


def bears_doubling(method: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """The share that survives the largest batch at its rate, with Wilson's interval."""

    def measured(made: Measured) -> Verdict:
        found = made.doubled(method, *doubled(made.size)[-1])
        if len(found) < len(made.size.doubling_seeds):
            return None
        return _share(sum(row.survived for row in found), len(found), criterion)

    return measured


def better_halved(ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The difference of test errors at the largest batch, each at the largest rate it survives."""

    def measured(made: Measured) -> Verdict:
        first, second = made.halved(ours), made.halved(theirs)
        if first is None or second is None:
            return None
        try:
            found = contrast([first, second], [1.0, -1.0], ["halved", "halved"])
        except UserError:
            return "open", "a method survives none of the rates"
        said, numbers = _word(found, Criterion(high=0.0)) or ("open", "")
        return said, f"α = {first[0].alpha:g} and {second[0].alpha:g}: {numbers}"

    return measured


def overall(method: str, size: Size) -> list[Term]:
    """The mean over all cells of a method's difference from SSGD."""
    return _mean(method, size.cells)


def growth(method: str, size: Size) -> list[Term]:
    """Its difference from SSGD at the largest batch minus that at the least."""
    least, most = (f(cell.batch for cell in size.cells) for f in (min, max))
    large = _mean(method, [cell for cell in size.cells if cell.batch == most])
    small = _mean(method, [cell for cell in size.cells if cell.batch == least])
    return [*large, *((cell, name, -weight) for cell, name, weight in small)]


def _mean(method: str, cells: Sequence[Cell]) -> list[Term]:
    weight = 1 / len(cells)
    pairs = [[(cell, method, weight), (cell, SSGD, -weight)] for cell in cells]
    return [term for pair in pairs for term in pair]


def of_cell(cell: Cell) -> list[Claim[Measured]]:
    """Each graph against SSGD in one cell."""
    return [
        Claim(f"{METHODS[name].label} beats SSGD", "difference of test errors below 0",
              errs(lambda size, name=name: _mean(name, [cell]), Criterion(high=0.0)))
        for name in GRAPHS
    ]  # fmt: skip


LOW, HIGH = Criterion(low=0.5), Criterion(high=0.5)
SPARSE: tuple[str, ...] = tuple(name for name in GRAPHS if name != COMPLETE)

EDGE_CLAIMS: tuple[Claim[Measured], ...] = (
    *(
        Claim(f"{METHODS[name].label} bears larger rates than SSGD",
              "difference of α_50 above 0", bears(name, SSGD, Criterion(low=0.0)))
        for name in GRAPHS
    ),
    *(
        Claim(f"{METHODS[name].label} bears rates as large as W = 11ᵀ/n does",
              f"difference of α_50 above -{STEP}", bears(name, COMPLETE, Criterion(low=-STEP)))
        for name in SPARSE
    ),
    Claim(f"SSGD fails at the paper's α = {PAPER:g}", "share that survives below 0.5",
          survives(SSGD, PAPER, HIGH)),
    Claim(f"... where {METHODS[COMPLETE].label} survives", "share that survives above 0.5",
          survives(COMPLETE, PAPER, LOW)),
)  # fmt: skip
OVERALL: tuple[Claim[Measured], ...] = (
    *(
        Claim(f"{METHODS[name].label} beats SSGD, both tuned", "difference below 0",
              errs(partial(overall, name), Criterion(high=0.0)))
        for name in GRAPHS
    ),
    *(
        Claim(f"{METHODS[name].label} is as good as SSGD, both tuned",
              f"difference below {MARGIN} points",
              errs(partial(overall, name), Criterion(high=MARGIN)))
        for name in GRAPHS
    ),
    *(
        Claim(f"{METHODS[name].label} gains more on SSGD at the larger batch",
              "difference at nB = 8000 minus that at 500 below 0",
              errs(partial(growth, name), Criterion(high=0.0)))
        for name in GRAPHS
    ),
)  # fmt: skip
DOUBLED: tuple[Claim[Measured], ...] = (
    Claim("SSGD fails at the largest batch with the rate in proportion",
          "share that survives below 0.5", bears_doubling(SSGD, HIGH)),
    *(
        Claim(f"... where {METHODS[name].label} survives", "share that survives above 0.5",
              bears_doubling(name, LOW))
        for name in FULL.doubling if name != SSGD
    ),
    *(
        Claim(f"With the rate halved until most survive, {METHODS[name].label} beats SSGD",
              "difference of test errors below 0", better_halved(name, SSGD))
        for name in FULL.doubling if name != SSGD
    ),
)  # fmt: skip
