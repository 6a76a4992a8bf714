"""What the DATE study is to decide, by criteria that were fixed before its runs were made.

Differences are of mean test errors at the end, in points, or on words of losses, unpaired, with
Welch's 95 % interval, not corrected for being many: yes if the whole interval meets the criterion,
no if none of it does, open otherwise. A claim is judged once all runs it is about are there.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, Estimate, Word, every, mean
from experiments.date.groups import Measured, elasticity
from experiments.date.methods import BY_LOSS, TOGGLES
from experiments.date.plan import PARTS, Cell

LOST = 0.2
"""Points of error that large batches may add on LeNet."""
LSTM_LOST = 0.5
"""... on the LSTM, and of letters that are spelled backwards."""
WORDS_LOST = 5.0
"""Hundredths of ln(perplexity) that they may add on words."""
NEEDLE = Criterion(-1.0, 1.0)
"""Points of error by which a rate 0.6 % off may differ where the best rate is no needle."""
BELOW, ABOVE = Criterion(high=0.0), Criterion(low=0.0)
PROPORTION = Criterion(0.75, 1.25)
"""Elasticity that counts as proportion."""
UNPEAKED = 2
"""Runs without a peak inside, of all, up to which the others are judged."""


def unit(task: str) -> str:
    """Of a difference of `points`."""
    return "points of ln(perplexity)" if task in BY_LOSS else "points"


def differs(ours: Cell, theirs: Cell, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """The difference of two cells."""

    def measured(made: Measured) -> Verdict:
        found = made.difference(ours, theirs)
        if found is None:
            return None
        return criterion.verdict(found), f"{found:+.2f} {unit(ours.task)}"

    return measured


def all_differ(
    pairs: list[tuple[str, Cell, Cell]], criterion: Criterion
) -> Callable[[Measured], Verdict]:
    """The differences of several pairs, each of which has a name."""

    def measured(made: Measured) -> Verdict:
        words, texts = [], []
        for said, ours, theirs in pairs:
            found = made.difference(ours, theirs)
            if found is None:
                return None
            words.append(criterion.verdict(found))
            texts.append(f"{said}: {found:+.2f}")
        return every(words), "; ".join(texts)

    return measured


def has_a_needle(made: Measured) -> Verdict:
    """Rates 0.6 % off LARS's best: an error more than a point away on either side."""
    best, *others = sorted(PARTS["needle"], key=lambda cell: abs(cell.shift))
    pairs = [(f"{cell.shift * 0.6:+g} %", cell, best) for cell in others]
    found = all_differ(pairs, NEEDLE)(made)
    if found is None:
        return None
    inverse: dict[object, Word] = {"yes": "no", "no": "yes", "open": "open"}
    return inverse[found[0]], found[1]


def peaks(criterion: Criterion) -> Callable[[Measured], Verdict]:
    """The elasticity of the epoch of the peak of L in the batch."""

    def measured(made: Measured) -> Verdict:
        found = made.lipschitz()
        if made.left("lipschitz"):
            return None
        inside = {b: [row for row in rows if row.peak_is_inside] for b, rows in found.items()}
        without = sum(len(found[b]) - len(inside[b]) for b in found)
        if without > UNPEAKED:
            return "open", f"{without} runs have no peak before their last tenth"
        exponent = elasticity(inside)
        text = f"{exponent:+.2f}" + (f", without {without} runs" if without else "")
        return criterion.verdict(exponent), text

    return measured


def ratios(column: str) -> Callable[[Measured], Verdict]:
    """A quotient of layer ratios of DATE on RMSProp: the geometric mean over the seeds."""

    def measured(made: Measured) -> Verdict:
        rows = made.whole(Cell("lenet", "rmsprop-date"))
        if rows is None:
            return None
        values = [getattr(row, column) for row in rows]
        if not all(map(math.isfinite, values)):
            return "open", "not measured in all runs"
        found = Estimate(*map(math.exp, mean([math.log(value) for value in values])))
        return Criterion(low=2.0).verdict(found), f"{found} times"

    return measured


def _solver(name: str, label: str) -> tuple[Claim[Measured], ...]:
    """What is asked of DATE on a solver, on LeNet."""
    ours, manual = Cell("lenet", f"{name}-date"), Cell("lenet", f"{name}-manual")
    small = Cell("lenet", f"{name}-manual", is_large=False)
    return (
        Claim(
            f"DATE on {label} trains LeNet at B = 8192 without loss of accuracy",
            f"over the manual schedule tuned at B_0, less than {LOST:g} points",
            differs(ours, small, Criterion(high=LOST)),
        ),
        Claim(
            "... and better than the manual schedule tuned there",
            "below 0",
            differs(ours, manual, BELOW),
        ),
    )


_TOGGLES = [Cell("lenet", f"rmsprop-{toggle}") for toggle in TOGGLES]
_DATE = Cell("lstm", "date")


def _against_adam(
    task: str, label: str, largest: int, lost: float = LSTM_LOST, what: str = "accuracy"
) -> tuple[Claim[Measured], ...]:
    """What is asked of DATE on momentum and of Adam at a constant rate, on a task."""
    ours, adam = Cell(task, "date"), Cell(task, "adam")
    small = {name: Cell(task, name, is_large=False) for name in ("date", "adam")}
    return (
        Claim(
            f"On {label} DATE loses no {what} at B = {largest}",
            f"over itself at B_0, less than {lost:g} {unit(task)}",
            differs(ours, small["date"], Criterion(high=lost)),
        ),
        Claim(
            f"DATE, tuned at B_0 only, beats Adam tuned at B = {largest}",
            "below 0",
            differs(ours, adam, BELOW),
        ),
        Claim("... and at B_0", "below 0", differs(small["date"], small["adam"], BELOW)),
    )


CLAIMS: tuple[Claim[Measured], ...] = (
    *_solver("rmsprop", "RMSProp"),
    *_solver("momentum", "momentum"),
    Claim(
        "The local Lipschitz constant peaks later, in epochs, for larger batches (Fig. 11)",
        "d ln(epoch of the peak) / d ln B above 0",
        peaks(ABOVE),
    ),
    Claim(
        "... in proportion to the batch, which is why LEGW's warm-up is",
        "within 0.75 and 1.25",
        peaks(PROPORTION),
    ),
    Claim(
        "LARS's rate must be tuned to the percent (Table 1: 9.94 works, 10.0 does not)",
        "a rate 0.6 % off the best differs by over 1 point",
        has_a_needle,
    ),
    Claim(
        "Each part of DATE helps (Fig. 10)",
        "each, added to those before it, below 0",
        all_differ(
            [(b.method.partition("-")[2], b, a) for a, b in pairwise(_TOGGLES)], BELOW
        ),
    ),
    Claim(
        "Layer ratios differ between layers (Fig. 12)",
        "largest over least of their medians above 2",
        ratios("ratio_spread"),
    ),
    Claim(
        "... and over time",
        "of the layer that changes most, from first to last above 2",
        ratios("ratio_change"),
    ),
    *_against_adam("lstm", "MNIST-LSTM", 8192),
    Claim(
        "... and every other solver tuned at B = 8192 (Fig. 13)",
        "below 0",
        all_differ([(cell.method, _DATE, cell) for cell in PARTS["solvers"]], BELOW),
    ),
    *_against_adam("backwards", "words spelled backwards", 4096),
    *_against_adam("words", "the word LSTM", 640, WORDS_LOST, "likelihood"),
)  # fmt: skip
