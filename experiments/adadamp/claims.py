"""What the study is to show, by criteria that were fixed before the runs were made.

A claim is judged once all runs it is about are there. An interval is Student's, 95 %, of
differences between runs of the same seed; two methods count as equal if it lies within NEAR, and
one as no worse than another if its upper end does: yes if all of it does, no if none of it, open
otherwise.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

from experiments.adadamp.facts import PLACES, Diversity
from experiments.adadamp.groups import Measured, error_at, first_at, mean_error
from experiments.adadamp.methods import BASELINE, METHODS, PUBLISHED, SCHEDULES
from experiments.adadamp.rows import SECONDS
from experiments.common.claims import NEAR, Claim, Verdict
from experiments.common.pairs import difference
from experiments.common.statistics import Criterion, Word, every

EQUAL = Criterion(-NEAR, NEAR)
EXACT = 1e-12
DIVERSE = 10.0
"""How many times larger gradient diversity is near the optimum than far from it."""
SHARE = 0.01
"""Absolute error of a schedule's share of the baseline's updates."""
GROWING = ("geodamp", "padadamp", "adadamp", "adadamp-nn", "radadamp")
"""Dampers whose batch grows, in the study of one learner."""
MIDDLE = (64, 128, 256)
"""Samples per worker between the fewest and the most."""
SLOWER = 1.2
"""Times as long as with the best number of workers."""
HALF = 0.5
"""Share of updates that is far fewer."""


def same_schedules(made: Measured) -> Verdict:
    """Updates, batches and rates as published, all five."""
    if not made.schedules:
        return None
    same = [
        (s.updates, s.batches, s.rates) == (s.published, s.published_batches, s.published_rates)
        for s in made.schedules
    ]
    return all(same), ", ".join(f"{s.updates:,}" for s in made.schedules)


def quadratic(made: Measured) -> Verdict:
    """Gradient diversity of the four points beside its closed form."""
    found = _of(made, "quadratic")
    if not found:
        return None
    worst = max(abs(row.value / row.reference - 1) for row in found)
    return worst <= EXACT, f"{found[0].value:.4g} to {found[-1].value:.4g}, worst error {worst:.1g}"


def grows(problem: str) -> Callable[[Measured], Verdict]:
    """Diversity near the optimum over that far from it."""

    def measured(made: Measured) -> Verdict:
        found = {row.place: row.value for row in _of(made, problem)}
        if not found:
            return None
        far, near = found[max(PLACES)], found[min(PLACES)]
        return near >= DIVERSE * far, f"{far:.3g} far, {near:.3g} near"

    return measured


def as_accurate(made: Measured) -> Verdict:
    """Every schedule's interval lies within NEAR."""
    groups = {name: made.scheduled(name) for name in SCHEDULES}
    if not made.is_whole(*groups.values()):
        return None
    found = {name: difference(groups[name], groups[BASELINE]) for name in SCHEDULES}
    del found[BASELINE]
    text = ", ".join(f"{PUBLISHED[name]}: {d}" for name, d in found.items())
    return every([EQUAL.verdict(d) for d in found.values()]), text


def per_epoch(made: Measured) -> Verdict:
    """Mean test errors at the ends of all segments."""
    groups = {name: made.scheduled(name) for name in SCHEDULES}
    if not made.is_whole(*groups.values()):
        return None
    size, worst = made.size, []
    for epoch in (size.delay, 2 * size.delay, 3 * size.delay, size.epochs):
        means = {
            name: 100 * fmean(error_at(made.curve(row), epoch) for row in group.values())
            for name, group in groups.items()
        }
        name = max(means, key=lambda name: abs(means[name] - means[BASELINE]))
        worst.append((means[name] - means[BASELINE], PUBLISHED[name], epoch))
    text = ", ".join(f"epoch {epoch:g}: {gap:+.2f} ({name})" for gap, name, epoch in worst)
    return all(abs(gap) <= NEAR for gap, _, _ in worst), text


def fewer_updates(made: Measured) -> Verdict:
    """Updates of each schedule over the baseline's, beside the paper's."""
    groups = {name: made.scheduled(name) for name in SCHEDULES}
    paper = {row.name: row.published for row in made.schedules}
    if not made.is_whole(*groups.values()) or not paper:
        return None
    counts = {name: fmean(row.updates for row in group.values()) for name, group in groups.items()}
    ours = {name: count / counts[BASELINE] for name, count in counts.items()}
    theirs = {name: paper[PUBLISHED[name]] / paper[PUBLISHED[BASELINE]] for name in SCHEDULES}
    text = ", ".join(f"{PUBLISHED[n]}: {ours[n]:.3f} for {theirs[n]:.3f}" for n in SCHEDULES)
    return all(abs(ours[name] - theirs[name]) <= SHARE for name in SCHEDULES), text


def pairs(*names: tuple[str, str]) -> Callable[[Measured], Verdict]:
    """All pairs of tuned methods are equal."""

    def measured(made: Measured) -> Verdict:
        groups = [(made.tuned(a), made.tuned(b)) for a, b in names]
        if not made.is_whole(*(group for pair in groups for group in pair)):
            return None
        found = [difference(*pair) for pair in groups]
        text = ", ".join(
            f"{METHODS[a].label} - {METHODS[b].label}: {d}"
            for (a, b), d in zip(names, found, strict=True)
        )
        return every([EQUAL.verdict(d) for d in found]), text

    return measured


def better(ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The whole interval of the difference is below zero."""

    def measured(made: Measured) -> Verdict:
        groups = made.tuned(ours), made.tuned(theirs)
        if not made.is_whole(*groups):
            return None
        found = difference(*groups)
        return Criterion(high=0).verdict(found), f"{found} points"

    return measured


def no_worse(ours: Sequence[str], theirs: str, share: float = 1.0) -> Callable[[Measured], Verdict]:
    """Upper ends within NEAR, with at most a share of the updates."""

    def measured(made: Measured) -> Verdict:
        groups, other = {name: made.tuned(name) for name in ours}, made.tuned(theirs)
        if not made.is_whole(*groups.values(), other):
            return None
        base = fmean(row.updates for row in other.values())
        parts, met = list[str](), list[Word]()
        for name, group in groups.items():
            found = difference(group, other)
            part = fmean(row.updates for row in group.values()) / base
            met.append(Criterion(high=NEAR).verdict(found) if part <= share else "no")
            parts.append(f"{METHODS[name].label}: {found}, {100 * part:.0f} % of the updates")
        return every(met), "; ".join(parts)

    return measured


def in_order(made: Measured) -> Verdict:
    """Simulated seconds of whole runs with 4 slots, as Table 2 has them."""
    order = ("geodamp-double", "geodamp-25", "geodamp-5", BASELINE)
    found = totals(made)
    if found is None:
        return None
    columns = [column for column in SECONDS.values() if column.endswith("_4")]
    met = all(found[a][c] < found[b][c] for c in columns for a, b in pairwise(order))
    column = columns[-1]
    return met, ", ".join(f"{PUBLISHED[n]}: {found[n][column]:.0f} s" for n in order)


def sooner(made: Measured) -> Verdict:
    """Simulated seconds to NEAR above the baseline's final error, every network and slots."""
    if not made.is_whole(made.scheduled("geodamp"), made.scheduled(BASELINE)):
        return None
    parts, met = [], []
    for name, column in SECONDS.items():
        ours, theirs = (time_to_target(made, which, column) for which in ("geodamp", BASELINE))
        met.append(ours < theirs)
        parts.append(f"{name}: {seconds(ours)} for {seconds(theirs)}")
    return all(met), ", ".join(parts)


def between(made: Measured) -> Verdict:
    """Median seconds of an epoch by samples per worker."""
    found = {row.samples: row.epoch_s for row in made.waits}
    if set(found) != set(made.size.samples_per_worker):
        return None
    best = min(found, key=lambda samples: found[samples])
    ends = (found[min(found)], found[max(found)])
    met = best in MIDDLE and all(end >= SLOWER * found[best] for end in ends)
    return met, ", ".join(f"{samples}: {found[samples]:.1f} s" for samples in sorted(found))


def time_to_target(made: Measured, name: str, column: str) -> float:
    """Mean seconds until a schedule's error is at most NEAR above the baseline's last one."""
    target = mean_error(made.scheduled(BASELINE)) + NEAR / 100
    curves = [made.curve(row) for row in made.scheduled(name).values()]
    return fmean(first_at(curve, target, column) for curve in curves)


def seconds(value: float) -> str:
    """Simulated seconds; never, if not all runs came there."""
    return "never" if math.isnan(value) else f"{value:.0f} s"


def totals(made: Measured) -> dict[str, dict[str, float]] | None:
    """Mean simulated seconds of whole runs, by schedule and column; None while runs are missing."""
    groups = {name: made.scheduled(name) for name in SCHEDULES}
    if not made.is_whole(*groups.values()):
        return None
    return {
        name: {
            column: fmean(getattr(made.curve(row)[-1], column) for row in group.values())
            for column in SECONDS.values()
        }
        for name, group in groups.items()
    }


def _of(made: Measured, problem: str) -> list[Diversity]:
    return [row for row in made.diversity if row.problem == problem]


OF_SCHEDULES = (
    Claim("Figs 3, 4: all schedules end with the same test error",
          f"interval of the difference to 128 within ± {NEAR:g} point, all four",
          as_accurate),
    Claim("... and have it after the same epochs",
          f"means at the ends of all segments within {NEAR:g} point of 128's",
          per_epoch),
    Claim("... with as few updates as in the paper",
          f"share of 128's updates within {SHARE:g} of the paper's", fewer_updates),
)  # fmt: skip
"""Judged on each data set."""

CLAIMS = (
    Claim("Fig. 2, Table 1: schedules and update counts",
          "all five: updates, batches and rates exactly",
          same_schedules),
    Claim("Fig. 1: gradients are more diverse near the optimum; four points in the plane",
          f"the closed form at every distance, to {EXACT:g}",
          quadratic),
    Claim("... softmax regression, which is convex",
          f"{DIVERSE:g} times at a hundredth of the distance", grows("softmax regression")),
    Claim("... the small MLP", f"{DIVERSE:g} times at a hundredth of the distance", grows("MLP")),
    *OF_SCHEDULES,
    Claim("A batch that grows does what the same falling rate does, each tuned",
          f"intervals within ± {NEAR:g} point",
          pairs(("geodamp", "geodamp-lr"), ("padadamp", "cntsdamp-lr"))),
    Claim("A growing batch beats a constant batch at a constant rate",
          "GeoDamp: the whole interval below 0", better("geodamp", "constant")),
    Claim("Every growing damper is as good as a rate that falls to 1 %, in half of the updates",
          f"each: upper end at most {NEAR:g} point, at most {100 * HALF:g} % of the updates",
          no_worse(GROWING, "decay", HALF)),
    Claim("... and so is the batch that follows the noise scale",
          f"upper end at most {NEAR:g} point, at most {100 * HALF:g} % of the updates",
          no_worse(("noise-scale",), "decay", HALF)),
    Claim("GeoDamp is as good as LENA", f"upper end at most {NEAR:g} point",
          no_worse(("geodamp",), "lena")),
    Claim("Batches that grow under DPSGD are as good as a rate that falls to 1 %",
          f"upper end at most {NEAR:g} point, at most {100 * HALF:g} % of the updates",
          no_worse(("dpsgd-geodamp",), "dpsgd", HALF)),
    Claim("Table 2: whole runs are the faster, the larger the largest batch",
          "simulated, 4 slots, every network: 5.1k < 3.2k < 640 < 128", in_order),
    Claim("Figs 5, 6, 8-10: growing batches reach the accuracy in fewer seconds",
          f"16k before 128 to {NEAR:g} point above 128's last error, every network and slots",
          sooner),
    Claim("Fig. 7: neither the fewest nor the most workers are fastest, with real Dask processes",
          f"an epoch is shortest with {MIDDLE[0]} to {MIDDLE[-1]} samples a worker, and takes at "
          f"least {SLOWER:g} times as long with 32 and with 512",
          between),
)  # fmt: skip
