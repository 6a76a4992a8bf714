"""The tables of LENA's and the rivals' studies read again; see `experiments.reread`."""

from collections.abc import Sequence
from statistics import fmean

from experiments.common.claims import Verdict
from experiments.common.scale import Scale
from experiments.common.statistics import Criterion, contrast
from experiments.lena.plan import cell, study
from experiments.lena.rows import Row, read_csv
from experiments.lena.tables import GUESSING, Rows
from experiments.reread import form
from experiments.rivals.plan import tuned_rows


def lena_over_adascale(scale: Scale, *, tuned: bool) -> Verdict:
    """Points of error that LENA has more than AdaScale, with the base rate of n = 1 or tuned."""
    made = study(scale)
    if tuned:
        rows = Rows(made, read_csv(scale.results / "rivals.csv"))
        pairs = [
            [tuned_rows(rows, k, n) for k in ("lena", "adascale")] for n in made.rival_learners
        ]
    else:
        rows = Rows(made, read_csv(scale.results / "lena.csv"))
        recipes = [cell("lena", "state-aware"), cell("adascale", "none")]
        pairs = [[rows.group(recipe, n) for recipe in recipes] for n in made.learners]
    return _points(pairs, Criterion(high=0.0))


def lena_scaling(scale: Scale) -> Verdict:
    """The same under the same warm-up, none or fixed."""
    rows = Rows(study(scale), read_csv(scale.results / "lena.csv"))
    kinds = [(warmup, n) for warmup in ("none", "fixed") for n in rows.study.learners]
    pairs = [[rows.group(cell(s, w), n) for s in ("lena", "adascale")] for w, n in kinds]
    return _points(pairs, Criterion(high=0.0))


def state_aware(scale: Scale) -> Verdict:
    """Points that LENA has more with its state-aware warm-up than with the fixed one."""
    rows = Rows(study(scale), read_csv(scale.results / "lena.csv"))
    kinds = ("state-aware", "fixed")
    pairs = [[rows.group(cell("lena", w), n) for w in kinds] for n in rows.study.learners]
    return _points(pairs, Criterion(high=0.0))


def rivals(scale: Scale, ours: str, theirs: str, criterion: Criterion) -> Verdict:
    """Points of error that one tuned method has more than another."""
    rows = Rows(study(scale), read_csv(scale.results / "rivals.csv"))
    both = (ours, theirs)
    pairs = [[tuned_rows(rows, k, n) for k in both] for n in rows.study.rival_learners]
    return _points(pairs, criterion)


def _points(pairs: Sequence[Sequence[list[Row]]], criterion: Criterion) -> Verdict:
    """Mean over n of differences, paired by seed; a lost run has the error of guessing.

    n is fixed, so the interval is of the seeds at each n alone. None while an n has not two pairs.
    """
    by_n = []
    for ours, theirs in pairs:
        a, b = ({row.seed: row for row in rows} for rows in (ours, theirs))
        by_n.append([100 * (_best(a[s]) - _best(b[s])) for s in sorted(a.keys() & b.keys())])
    if not by_n or min(map(len, by_n)) < 2:
        return None
    found = contrast(by_n, [1 / len(by_n)] * len(by_n))
    means = [fmean(values) for values in by_n]
    text = f"{form(found, '+.1f')} points, {sum(map(len, by_n))} pairs"
    return criterion.verdict(found), f"{text}; of one n {min(means):+.1f} to {max(means):+.1f}"


def _best(row: Row) -> float:
    return GUESSING if row.lost else row.best_error
