"""The tables of LENA's, DATE's and the rivals' studies read again; see `experiments.reread`."""

from collections.abc import Sequence
from itertools import pairwise

from experiments.common.claims import Verdict
from experiments.common.scale import Scale
from experiments.common.statistics import Criterion, difference, every, mean
from experiments.date import rows as date_rows
from experiments.date import size as date_size
from experiments.date.groups import lenet_runs, lipschitz_runs, test_error
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
    """Mean difference over n and seeds, paired by both; a lost run has the error of guessing."""
    values = []
    for ours, theirs in pairs:
        a, b = ({row.seed: row for row in rows} for rows in (ours, theirs))
        values += [100 * (_best(a[s]) - _best(b[s])) for s in sorted(a.keys() & b.keys())]
    if len(values) < 2:
        return None
    found = mean(values)
    return criterion.verdict(found), f"{form(found, '+.1f')} points, {len(values)} pairs"


def _best(row: Row) -> float:
    return GUESSING if row.lost else row.best_error


def date_at_the_large_batch(scale: Scale, method: str) -> Verdict:
    """Points of test error that DATE has more at the large batch than a method; two solvers."""
    size = date_size.study(scale)
    rows = date_rows.read_csv(scale.results / "date.csv")
    batch = size.lenet.baseline if method == "baseline" else size.lenet.batch
    parts, words = [], []
    criterion = Criterion(high=0.2 if method == "baseline" else 0.0)
    for solver, _ in size.lenet.solvers:
        pair = [
            [100 * test_error(row) for row in lenet_runs(rows, size, solver, name, b)]
            for name, b in (("date", size.lenet.batch), ("manual", batch))
        ]
        if min(map(len, pair)) < 2:
            return None
        found = difference(*pair, paired=False)
        words.append(criterion.verdict(found))
        parts.append(f"{solver} {form(found, '+.0f')}")
    return every(words), "; ".join(parts) + " points"


def lipschitz_later(scale: Scale) -> Verdict:
    """Epochs by which the peak of L comes later at each larger batch."""
    size = date_size.study(scale)
    found = lipschitz_runs(date_rows.read_csv(scale.results / "date.csv"), size)
    batches = sorted(found)
    if len(batches) < 2 or min(len(runs) for runs in found.values()) < 2:
        return None
    steps = [
        difference(*([row.peak_epoch for row in found[b]] for b in (large, small)), paired=False)
        for small, large in pairwise(batches)
    ]
    words = [Criterion(low=0.0).verdict(step) for step in steps]
    text = "; ".join(
        f"B = {b}: {form(step, '+.2f')}" for b, step in zip(batches[1:], steps, strict=True)
    )
    return every(words), f"{text} epochs"
