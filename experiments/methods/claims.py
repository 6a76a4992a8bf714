"""What the study is to decide, by criteria that were fixed before its judged runs were made.

Student's 95 % intervals of differences between runs of one seed: yes if the whole interval meets
the criterion, no if none of it does, open otherwise. They are not corrected for being many.
"""

import math
from collections.abc import Callable

from experiments.common.claims import NEAR, TIE, Claim, Verdict
from experiments.common.pairs import difference
from experiments.common.statistics import Criterion, mean
from experiments.methods.groups import Group, Measured, front, mean_of
from experiments.methods.methods import COMPRESSED, METHODS, OURS, ROUNDS, compared
from experiments.methods.rows import NETWORKS
from experiments.methods.size import ALIKE, DIFFERENT

TENTH, HALF = 0.1, 0.5
"""Shares of another method's bytes."""


def better(cell: str, ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The whole interval of the difference of test errors is below zero."""
    return _judged(cell, ours, theirs, Criterion(high=0.0))


def no_worse(
    cell: str, ours: str, theirs: str, share: float = math.inf
) -> Callable[[Measured], Verdict]:
    """The upper end is below NEAR, with at most a share of the other's bytes."""
    return _judged(cell, ours, theirs, Criterion(high=NEAR), share)


def equal(cell: str, ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The whole interval lies within TIE."""
    return _judged(cell, ours, theirs, Criterion(-TIE, TIE))


def _judged(
    cell: str, ours: str, theirs: str, criterion: Criterion, share: float = math.inf
) -> Callable[[Measured], Verdict]:
    def measured(made: Measured) -> Verdict:
        a, b = made.tuned(cell, ours), made.tuned(cell, theirs)
        if not made.is_whole(a, b):
            return None
        found, part = difference(a, b), mean_of(a, "megabytes") / mean_of(b, "megabytes")
        word = criterion.verdict(found) if part <= share else "no"
        return word, f"{found} points, {100 * part:.3g} % of the bytes"

    return measured


def sooner(cell: str, network: str, ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The logarithm of the ratio of seconds to the target is below zero, interval and all.

    A method that does not reach it in all runs is later than one that does.
    """

    def measured(made: Measured) -> Verdict:
        a, b = made.tuned(cell, ours), made.tuned(cell, theirs)
        if not made.is_whole(a, b):
            return None
        column = f"to_{NETWORKS[network]}"
        first, second = mean_of(a, column), mean_of(b, column)
        text = f"{seconds(first)} for {seconds(second)}"
        if math.isnan(first) or math.isnan(second):
            both = math.isnan(first) and math.isnan(second)
            return ("open" if both else "no" if math.isnan(first) else "yes"), text
        ratios = [math.log(getattr(a[s], column) / getattr(b[s], column)) for s in a]
        return Criterion(high=0.0).verdict(mean(ratios)), text

    return measured


def first(cell: str, network: str) -> Callable[[Measured], Verdict]:
    """One of OURS has the least mean seconds to the target of all methods."""

    def measured(made: Measured) -> Verdict:
        groups = made.whole(cell)
        if groups is None:
            return None
        found = ranking(groups, network)
        place = next((i for i, (_, name) in enumerate(found) if name in OURS), None)
        if place is None:
            return False, "neither reaches the target in all runs"
        (best, name), (own, mine) = found[0], found[place]
        text = f"{METHODS[mine].label}: {seconds(own)}, place {place + 1} of {len(groups)}"
        if place:
            text += f", {own / best:.3g} times the {seconds(best)} of {METHODS[name].label}"
        return place == 0, text

    return measured


def ranking(groups: dict[str, Group], network: str) -> list[tuple[float, str]]:
    """Mean seconds to the target, in order, of those that reach it in all runs."""
    column = f"to_{NETWORKS[network]}"
    found = [(mean_of(group, column), name) for name, group in groups.items()]
    return sorted(each for each in found if math.isfinite(each[0]))


def seconds(value: float) -> str:
    """As a page says them; never, if not all runs came there."""
    return "never" if math.isnan(value) else f"{value:.3g} s"


def few_bytes(cell: str) -> Callable[[Measured], Verdict]:
    """Of the front of bytes and loss, only COMPRESSED and ROUNDS."""

    def measured(made: Measured) -> Verdict:
        groups = made.whole(cell)
        if groups is None:
            return None
        names = front(groups, "megabytes")
        met = all(compared(made.size)[name].family in (COMPRESSED, ROUNDS) for name in names)
        return met, ", ".join(METHODS[name].label for name in names)

    return measured


_NEAR = f"upper end of the difference below {NEAR:g} point"
_BELOW = "the whole interval below 0"
_SOONER = "ratio of seconds to the target below 1, interval and all"

CLAIMS = (
    Claim("Data alike: DPSGD on a ring is as good as SSGD", _NEAR,
          no_worse(ALIKE, "dpsgd", "ssgd")),
    Claim("... and so it is with one peer, at half of the ring's bytes",
          f"{_NEAR}, at most {100 * HALF:g} % of the ring's bytes",
          no_worse(ALIKE, "one-peer", "dpsgd", HALF)),
    Claim("Data different: DPSGD on a ring is as good as SSGD", _NEAR,
          no_worse(DIFFERENT, "dpsgd", "ssgd")),
    Claim("... D² is better than DPSGD", _BELOW, better(DIFFERENT, "d2", "dpsgd")),
    Claim("... so is gradient tracking, for twice the bytes", _BELOW,
          better(DIFFERENT, "gt", "dpsgd")),
    Claim("... so is RelaySGD", _BELOW, better(DIFFERENT, "relay", "dpsgd")),
    Claim("... QG is better than DPSGD with local momentum", _BELOW,
          better(DIFFERENT, "qg", "dpsgd-momentum")),
    Claim("... so is DecentLaM", _BELOW, better(DIFFERENT, "decentlam", "dpsgd-momentum")),
    Claim("... so is momentum tracking, for twice the bytes", _BELOW,
          better(DIFFERENT, "momentum-tracking", "dpsgd-momentum")),
    Claim("A directed graph will do: SGP is as good as DPSGD on a ring, data alike", _NEAR,
          no_worse(ALIKE, "sgp", "dpsgd")),
    Claim("... data different", _NEAR, no_worse(DIFFERENT, "sgp", "dpsgd")),
    Claim("Stale gradients cost nothing: AD-PSGD is as good as DPSGD on a ring, data alike", _NEAR,
          no_worse(ALIKE, "ad-psgd", "dpsgd")),
    Claim("... data different", _NEAR, no_worse(DIFFERENT, "ad-psgd", "dpsgd")),
    Claim("Half of the ring's bytes do: MATCHA is as good as DPSGD, data alike",
          f"{_NEAR}, at most {100 * HALF * 1.1:g} % of the bytes",
          no_worse(ALIKE, "matcha", "dpsgd", HALF * 1.1)),
    Claim("... data different", f"{_NEAR}, at most {100 * HALF * 1.1:g} % of the bytes",
          no_worse(DIFFERENT, "matcha", "dpsgd", HALF * 1.1)),
    Claim("bf16 on the wire changes nothing", f"interval within ± {TIE:g} point, data different",
          equal(DIFFERENT, "bf16", "dpsgd")),
    Claim("Int8 differences (DCD) change nothing",
          f"interval within ± {TIE:g} point, data different",
          equal(DIFFERENT, "dcd", "dpsgd")),
    Claim("CHOCO with the largest tenth is as good as DPSGD, data different", _NEAR,
          no_worse(DIFFERENT, "choco", "dpsgd")),
    Claim("... BEER is better than CHOCO there", _BELOW, better(DIFFERENT, "beer", "choco")),
    Claim("Rounds: local SGD is as good as SSGD at a tenth of the bytes, data alike",
          f"{_NEAR}, at most {100 * TENTH:g} % of the bytes",
          no_worse(ALIKE, "local", "ssgd", TENTH)),
    Claim("... data different", f"{_NEAR}, at most {100 * TENTH:g} % of the bytes",
          no_worse(DIFFERENT, "local", "ssgd", TENTH)),
    Claim("... an average over all beats one over neighbours: local SGD and DPSGD, rarely",
          f"{_BELOW}, data different", better(DIFFERENT, "local", "rare")),
    Claim("DiLoCo is as good as SSGD with momentum, data different", _NEAR,
          no_worse(DIFFERENT, "diloco", "ssgd-momentum")),
    Claim("... and better than local SGD: the outer momentum pays", f"{_BELOW}, data different",
          better(DIFFERENT, "diloco", "local")),
    Claim("... Streaming DiLoCo is as good as DiLoCo", f"{_NEAR}, data different",
          no_worse(DIFFERENT, "streaming", "diloco")),
    Claim("... NoLoCo, which knows no all-reduce, is as good", f"{_NEAR}, data different",
          no_worse(DIFFERENT, "noloco", "diloco")),
    Claim("... GASLoC, which knows neighbours alone, is as good", f"{_NEAR}, data different",
          no_worse(DIFFERENT, "gasloc", "diloco")),
    Claim("... SparseLoCo is as good, at a tenth of DiLoCo's bytes",
          f"{_NEAR}, at most {100 * TENTH:g} % of the bytes, data different",
          no_worse(DIFFERENT, "sparseloco", "diloco", TENTH)),
    Claim("Whole rows at every step are never worth their bytes",
          "all on the front of bytes and test loss are compressed or in rounds, data alike",
          few_bytes(ALIKE)),
    Claim("... data different", "the same", few_bytes(DIFFERENT)),
    Claim("DPSGD on a ring is sooner at the target than SSGD: 10GbE, data alike", _SOONER,
          sooner(ALIKE, "10GbE", "dpsgd", "ssgd")),
    Claim("... home fibre", _SOONER, sooner(ALIKE, "home-fibre", "dpsgd", "ssgd")),
    Claim("... home fibre, data different", _SOONER,
          sooner(DIFFERENT, "home-fibre", "dpsgd", "ssgd")),
    *(
        Claim(f"{'DPSGD is first of all at the target' if i == 0 else '...'}: {network}, {cell}",
              "least mean seconds, ring or one peer", first(cell, network))
        for i, (network, cell) in enumerate(
            (network, cell) for network in NETWORKS for cell in (ALIKE, DIFFERENT)
        )
    ),
)  # fmt: skip
