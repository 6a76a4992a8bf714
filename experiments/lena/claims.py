"""The LENA paper's claims are judged by criteria on the runs.

The criteria were fixed before the runs were made, for our set-up: the paper's numbers are of
ResNets, on validation sets that overlap the training sets.
"""

import math
from statistics import fmean

from experiments.common.claims import NEAR, TIE, Claim, Verdict
from experiments.lena.plan import DIAGONAL, SCALINGS, WARMUPS, cell, halves, lena_at
from experiments.lena.tables import Rows, score

KEPT_UNTIL = 64


def _scores(rows: Rows, name: str) -> dict[int, float] | None:
    """Mean best errors of a method of Table 1 by n; None if one is missing."""
    found = {n: score(rows.group(cell(*DIAGONAL[name]), n)) for n in rows.study.learners}
    return None if any(map(math.isnan, found.values())) else found


def lena_is_best(rows: Rows) -> Verdict:
    """LENA is at least as accurate as LSW and AdaScale at each n."""
    found = {name: _scores(rows, name) for name in DIAGONAL}
    lena, others = found["LENA"], [found["LSW"], found["AdaScale"]]
    if lena is None or None in others:
        return None
    best = {n: min(other[n] for other in others if other) for n in lena}
    text = ", ".join(f"n = {n}: {lena[n]:.1f} against {best[n]:.1f}" for n in lena)
    return all(lena[n] <= best[n] for n in lena), text


def lsw_degrades(rows: Rows) -> Verdict:
    """LSW loses accuracy from the smallest to the largest n."""
    found = _scores(rows, "LSW")
    if found is None:
        return None
    low, high = found[min(found)], found[max(found)]
    return high > low + 2, f"{low:.1f} at n = {min(found)}, {high:.1f} at n = {max(found)}"


def lena_keeps_accuracy(rows: Rows) -> Verdict:
    """LENA keeps the single worker's accuracy."""
    found, target = _scores(rows, "LENA"), 100 * rows.target()
    if found is None or math.isnan(target):
        return None
    asked = {n: error for n, error in found.items() if n <= KEPT_UNTIL}
    text = ", ".join(f"n = {n}: {error - target:+.1f}" for n, error in asked.items())
    return all(error <= target + NEAR for error in asked.values()), text


def lena_is_quickest(rows: Rows) -> Verdict:
    """LENA is first at the easier target, at the largest n at which two methods reach it."""
    for n in sorted(rows.study.learners, reverse=True):
        groups = {name: rows.group(cell(*parts), n) for name, parts in DIAGONAL.items()}
        if not all(groups.values()):
            return None
        epochs = {name: fmean(row.easy_epochs for row in group) for name, group in groups.items()}
        there = {name: value for name, value in epochs.items() if math.isfinite(value)}
        if len(there) > 1:
            text = ", ".join(f"{name} {value:.2f}" for name, value in there.items())
            quickest = min(there.values()) == there.get("LENA", math.inf)
            never = "".join(f", {name} N/A" for name in epochs if name not in there)
            return quickest, f"n = {n}: {text}{never}"
    return False, "no n at which two of them do"


def _cells(rows: Rows) -> dict[tuple[str, str], float] | None:
    """Mean errors over all n of each cell of Table 2; None if one is missing."""
    found = {
        (scaling, warmup): fmean(
            score(rows.group(cell(scaling, warmup), n)) for n in rows.study.learners
        )
        for scaling in SCALINGS
        for warmup in WARMUPS
    }
    return None if any(map(math.isnan, found.values())) else found


def state_aware_is_best(rows: Rows) -> Verdict:
    """The state-aware warm-up is the best under each scaling."""
    found = _cells(rows)
    if found is None:
        return None
    by_scaling = {s: {w: found[s, w] for w in WARMUPS} for s in SCALINGS}
    text = "; ".join(
        f"{s}: " + ", ".join(f"{w} {error:.1f}" for w, error in by_warmup.items())
        for s, by_warmup in by_scaling.items()
    )
    return all(min(e, key=lambda w: e[w]) == "state-aware" for e in by_scaling.values()), text


def lena_scaling_is_best(rows: Rows) -> Verdict:
    """LENA's scaling is the best under each warm-up."""
    found = _cells(rows)
    if found is None:
        return None
    by_warmup = {w: {s: found[s, w] for s in SCALINGS} for w in WARMUPS}
    text = "; ".join(
        f"{w}: " + ", ".join(f"{s} {error:.1f}" for s, error in by_scaling.items())
        for w, by_scaling in by_warmup.items()
    )
    return all(min(e, key=lambda s: e[s]) == "lena" for e in by_warmup.values()), text


def five_percent(rows: Rows) -> Verdict:
    """Alpha = 5 % is close to the best alpha, on seed 0."""
    parts, met = [], []
    for n in rows.study.few_learners:
        found = {a: score(rows.group(lena_at(a), n, seeds=1)) for a in rows.study.alphas}
        if any(map(math.isnan, found.values())):
            return None
        best = min(found, key=lambda a: found[a])
        met.append(found[0.05] <= found[best] + TIE)
        parts.append(f"n = {n}: {found[0.05]:.1f}, best {found[best]:.1f} at {best:.0%}")
    return all(met), "; ".join(parts)


def variance_grows(rows: Rows) -> Verdict:
    """The whole model's gradient variance is larger late in LENA's runs than early."""
    parts, met = [], []
    for n in rows.study.learners:
        group = [row for row in rows.group(cell("lena", "state-aware"), n) if not row.lost]
        if group:
            early = fmean(row.grad_var_early for row in group)
            late = fmean(row.grad_var_late for row in group)
            met.append(late > early)
            parts.append(f"n = {n}: {early:.1f}, then {late:.1f}")
    return (all(met), "; ".join(parts)) if met else None


def layers_differ(rows: Rows) -> Verdict:
    """The greatest of the layers' gradient variances is well above the least."""
    parts, met = [], []
    for n in rows.study.learners:
        group = [row for row in rows.group(cell("lena", "state-aware"), n) if not row.lost]
        if group:
            low = fmean(row.layer_low for row in group)
            high = fmean(row.layer_high for row in group)
            met.append(high >= 1.5 * low)
            parts.append(f"n = {n}: {low:.1f} to {high:.1f}")
    return (all(met), "; ".join(parts)) if met else None


def all_layers_are_better(rows: Rows) -> Verdict:
    """LENA on all layers is at least as accurate as on half of them, on seed 0."""
    parts, met = [], []
    for n in rows.study.layer_learners:
        whole = score(rows.group(cell("lena", "state-aware"), n, seeds=1))
        draws = [score(rows.group(recipe, n, seeds=1)) for recipe in halves(rows.study)]
        if any(map(math.isnan, [whole, *draws])):
            return None
        met.append(whole <= fmean(draws))
        parts.append(f"n = {n}: {whole:.1f} on all, {fmean(draws):.1f} on half")
    return all(met), "; ".join(parts)


def layers_end_apart(rows: Rows) -> Verdict:
    """The last layer of LENA's runs is warm much later than the first."""
    parts, met = [], []
    for n in rows.study.learners:
        group = [row for row in rows.group(cell("lena", "state-aware"), n) if not row.lost]
        if group:
            first = fmean(row.warm_first for row in group)
            last = fmean(row.warm_last for row in group)
            cold = max(row.cold for row in group)
            met.append(last >= 1.5 * first or cold > 0)
            never = f", {cold} of {group[0].layers} never" if cold else ""
            span = f"epoch {first:.2f} to {last:.2f}" if math.isfinite(first) else "no layer"
            parts.append(f"n = {n}: {span}{never}")
    return (all(met), "; ".join(parts)) if met else None


CLAIMS = (
    Claim("Linear scaling loses accuracy with large batches (Table 1)",
          "LSW: mean best error at the largest n over 2 points above that at the smallest",
          lsw_degrades),
    Claim("LENA is more accurate than LSW and AdaScale (Table 1)",
          "mean best error not above either, at every n",
          lena_is_best),
    Claim("LENA keeps the single worker's accuracy (Table 1)",
          f"mean best error at most {NEAR:g} point above the target, n up to {KEPT_UNTIL}",
          lena_keeps_accuracy),
    Claim("LENA is the first to reach a target (Table 1)",
          "fewest epochs to the easier target, at the largest n at which two methods get there "
          "on every seed",
          lena_is_quickest),
    Claim("State-aware warm-up is the best under every scaling (Table 2)",
          "lowest best error, mean over n, under each of the three scalings",
          state_aware_is_best),
    Claim("LENA's scaling is the best under every warm-up (Table 2)",
          "lowest best error, mean over n, under each of the three warm-ups",
          lena_scaling_is_best),
    Claim("alpha = 5 % is a good length (Table 3)",
          f"within {TIE:g} points of the best of the five, at every n",
          five_percent),
    Claim("Gradient variance grows as the model learns (Fig. 2)",
          "LENA: the last third's mean above the first third's, at every n",
          variance_grows),
    Claim("It differs between layers (Fig. 3)",
          "LENA: the greatest layer's mean at least 1.5 times the least one's, at every n",
          layers_differ),
    Claim("A rate for every layer is better than for half of them (Fig. 4)",
          "mean best error not above that on half of the layers, at every n",
          all_layers_are_better),
    Claim("Layers end their warm-up at different times (Fig. 7)",
          "LENA: the last at least 1.5 times as late as the first, or some never, at every n",
          layers_end_apart),
)  # fmt: skip
