"""The comparison's questions are answered by criteria on the runs.

The criteria were fixed before the runs were made. A method is what its tuned runs give: the mean
over seeds of the best validation error at its best base rate.
"""

import math
from statistics import fmean

from experiments.common.claims import NEAR, TIE, Claim, Verdict
from experiments.lena.tables import Rows, score
from experiments.rivals.plan import RIVALS, rates_tried, rivals, tuned_rows

SYNCHRONOUS = ("ssgd", "lsw", "date", "adascale", "lena", "lars", "lamb")
DECENTRALISED = tuple(name for name in RIVALS if name not in SYNCHRONOUS)


def scores(rows: Rows, n: int) -> dict[str, float]:
    """Mean best errors in % of the rivals at n that have been run."""
    found = {name: score(tuned_rows(rows, name, n)) for name in RIVALS}
    return {name: error for name, error in found.items() if not math.isnan(error)}


def _complete(rows: Rows, found: dict[str, float]) -> bool:
    return set(found) == set(rivals(rows.study))


def _pair(rows: Rows, ours: str, theirs: str, margin: float) -> Verdict:
    """Whether `ours` is at most `margin` above `theirs`, at every n."""
    parts, met = [], []
    for n in rows.study.rival_learners:
        found = scores(rows, n)
        if ours not in found or theirs not in found:
            return None
        met.append(found[ours] <= found[theirs] + margin)
        parts.append(f"n = {n}: {found[ours]:.1f} against {found[theirs]:.1f}")
    return all(met), "; ".join(parts)


def as_good_as_ssgd(rows: Rows) -> Verdict:
    """Plain DPSGD on one-peer graphs is as good as plain SSGD."""
    return _pair(rows, "dpsgd-exp", "ssgd", TIE)


def best_against_best(rows: Rows) -> Verdict:
    """The best decentralised method is as good as the best synchronous one."""
    parts, met = [], []
    for n in rows.study.rival_learners:
        found = scores(rows, n)
        sides = [{k: found[k] for k in side if k in found} for side in (DECENTRALISED, SYNCHRONOUS)]
        if not _complete(rows, found) or not all(sides):
            return None
        ours, theirs = (min(side, key=lambda k, side=side: side[k]) for side in sides)
        met.append(found[ours] <= found[theirs] + TIE)
        names = RIVALS[ours].label, RIVALS[theirs].label
        parts.append(
            f"n = {n}: {names[0]} {found[ours]:.1f} against {names[1]} {found[theirs]:.1f}"
        )
    return all(met), "; ".join(parts)


def larger_rates(rows: Rows) -> Verdict:
    """DPSGD survives a higher rate than SSGD, of those that both were tried with."""
    parts, met = [], []
    for n in rows.study.rival_learners:
        highest = []
        for name in ("dpsgd-exp", "ssgd"):
            tried = rates_tried(rows, name, n)
            if None in tried.values():
                return None
            alive = [lr for lr, row in tried.items() if row and not row.lost]
            highest.append(max(alive, default=0.0))
        met.append(highest[0] > highest[1])
        parts.append(f"n = {n}: {highest[0]:g} against {highest[1]:g}")
    return all(met), "; ".join(parts)


def warmup_helps_less(rows: Rows) -> Verdict:
    """The fixed warm-up gains less under DPSGD than under SSGD."""
    parts, met = [], []
    for n in rows.study.rival_learners:
        found = scores(rows, n)
        if not {"ssgd", "lsw", "dpsgd-exp", "dpsgd-exp-lsw"} <= set(found):
            return None
        gains = found["dpsgd-exp"] - found["dpsgd-exp-lsw"], found["ssgd"] - found["lsw"]
        met.append(gains[0] < gains[1])
        parts.append(f"n = {n}: {gains[0]:+.1f} points against {gains[1]:+.1f}")
    return all(met), "; ".join(parts)


def lena_helps_dpsgd(rows: Rows) -> Verdict:
    """LENA's rates lower DPSGD's error."""
    return _pair(rows, "dpsgd-exp-lena", "dpsgd-exp", 0.0)


def ratio_helps_dpsgd(rows: Rows) -> Verdict:
    """The layer ratio lowers DPSGD's error."""
    return _pair(rows, "dpsgd-exp-ratio", "dpsgd-exp", 0.0)


def graph_does_not_matter(rows: Rows) -> Verdict:
    """The ring is as good as the one-peer exponential graph."""
    return _pair(rows, "dpsgd-ring", "dpsgd-exp", TIE)


def accuracy_is_kept(rows: Rows) -> Verdict:
    """Some method stays near the single worker at the largest n."""
    n, target = max(rows.study.rival_learners), 100 * rows.target()
    found = scores(rows, n)
    if not _complete(rows, found) or math.isnan(target):
        return None
    kept = [name for name, error in found.items() if error <= target + NEAR]
    best = min(found, key=lambda k: found[k])
    text = f"target {target:.1f}; best {RIVALS[best].label} {found[best]:.1f}"
    names = ", ".join(RIVALS[name].label for name in kept)
    return bool(kept), f"{text}; within: {names or 'none'}; mean {fmean(found.values()):.1f}"


CLAIMS = (
    Claim("Plain DPSGD is as good as plain SSGD, both tuned",
          f"one-peer graphs: at most {TIE:g} points above SSGD, at every n",
          as_good_as_ssgd),
    Claim("The best of DPSGD is as good as the best synchronous method",
          f"at most {TIE:g} points above, at every n",
          best_against_best),
    Claim("DPSGD bears larger rates than SSGD",
          "the highest trial that is not lost is higher, at every n",
          larger_rates),
    Claim("DPSGD needs warm-up less than SSGD does",
          "the fixed warm-up takes fewer points off its error, at every n",
          warmup_helps_less),
    Claim("LENA's rule helps DPSGD", "one-peer: not above plain DPSGD, at every n",
          lena_helps_dpsgd),
    Claim("The layer ratio helps DPSGD", "one-peer: not above plain DPSGD, at every n",
          ratio_helps_dpsgd),
    Claim("A ring is as good as one-peer exponential graphs",
          f"at most {TIE:g} points above, at every n",
          graph_does_not_matter),
    Claim("Some method keeps the single worker's accuracy",
          f"best error at most {NEAR:g} point above the target at the largest n",
          accuracy_is_kept),
)  # fmt: skip
