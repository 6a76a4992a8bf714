"""What the study is to decide, by criteria that were fixed before its runs were made.

Every statement is about a difference of two survival rates, with Newcombe's 95 % interval: yes if
the whole interval meets the criterion, no if none of it does, open otherwise. They are not
corrected for being many.
"""

from collections.abc import Callable

from experiments.common.claims import Claim, Verdict, of_survival
from experiments.common.statistics import Criterion
from experiments.noise.arms import ARMS, MATCHED, OWN, SSGD
from experiments.noise.groups import Measured

MARGIN = 0.25
"""Difference of survival rates below which two arms count as the same."""
LATER = "chosen after the runs"


def more(first: str, second: str) -> Callable[[Measured], Verdict]:
    """More of the first arm's runs survive."""
    return _judged(first, second, Criterion(low=0.0))


def many_more(first: str, second: str) -> Callable[[Measured], Verdict]:
    """More of the first arm's runs survive, by MARGIN.

    Where no run of either survives, this is no: the interval of 0 of 20 against 0 of 20 reaches
    from -0.16 to 0.16, by which `more` is open.
    """
    return _judged(first, second, Criterion(low=MARGIN))


def as_many(first: str, second: str) -> Callable[[Measured], Verdict]:
    """At most MARGIN fewer of the first arm's runs survive."""
    return _judged(first, second, Criterion(low=-MARGIN))


def _judged(first: str, second: str, criterion: Criterion) -> Callable[[Measured], Verdict]:
    def measured(made: Measured) -> Verdict:
        a, b = made.counts(first), made.counts(second)
        return of_survival(a and [a], b and [b], criterion)

    return measured


def _rescues(name: str, statement: str) -> tuple[Claim[Measured], ...]:
    arm, label = ARMS[name], ARMS[name].label
    when = "" if arm.is_recorded else f" ({LATER})"
    return (
        Claim(statement, f"{label} - SSGD above 0", more(name, SSGD)),
        Claim(
            "... in a quarter more of the runs",
            f"{label} - SSGD above {MARGIN}{when}",
            many_more(name, SSGD),
        ),
        Claim("... as well as DPSGD's own", f"{label} - DPSGD above -{MARGIN}", as_many(name, OWN)),
    )


CLAIMS = (
    Claim("DPSGD survives where SSGD does not", "DPSGD - SSGD above 0", more(OWN, SSGD)),
    *_rescues("isotropic", "Isotropic noise, as strong as its own D, rescues SSGD"),
    *_rescues("by-layer", "... if each layer has its strength"),
    *_rescues("gaussian", "... if it has the learners' covariance"),
    *_rescues("flipped", "... if only its sign is turned (a symmetric law would not notice)"),
    *_rescues("signed", "... if only its sign is random"),
    *_rescues("delayed", "... if it is the learners' own, 20 steps old"),
    *_rescues("shuffled", "... if it is the learners' own of the last 20 steps, in disorder"),
    *_rescues("twin", "... if it is that of another run of DPSGD"),
    *_rescues("strong-isotropic", "Isotropic noise of DPSGD's σ_w² at every step rescues SSGD"),
    *_rescues("strong-gaussian", "... if it has the learners' covariance"),
    *_rescues("strong-flipped", "... if only the sign of D is turned"),
    *_rescues("strong-signed", "... if only the sign of D is random"),
    *_rescues(MATCHED, "A rate that follows DPSGD's α_e rescues SSGD without any noise"),
)
