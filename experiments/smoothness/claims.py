"""What the study is to decide, by criteria that were fixed before its runs were made.

Each is about a geometric mean over the runs with Student's 95 % interval, or Welch's between the
algorithms, or a bootstrap's: yes if the whole interval meets the criterion, no if none of it does,
open otherwise. They are not corrected for being many. All but the last four are about the middle
rate, these about the largest: before its runs were made, a review saw that over all rates the rate
alone tells many of them apart.
"""

from collections.abc import Callable

from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, Estimate
from experiments.smoothness.groups import DEAD, Measured
from experiments.smoothness.plan import DPSGD, SSGD

SMOOTHER = Criterion(high=0.9)
"""By at least 10 %."""
TELLS = Criterion(low=0.7)
"""Of two runs of which one died, the share that is told apart."""

Find = Callable[[Measured], Estimate | None]


def judged(find: Find, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A number with its interval meets a criterion."""

    def measured(made: Measured) -> Verdict:
        found = find(made)
        return None if found is None else (criterion.verdict(found), str(found))

    return measured


def _over_none(kind: str, name: str, phase: str) -> Find:
    def find(made: Measured) -> Estimate | None:
        steps = getattr(made.size, phase)
        return made.ratio(made.size.alpha, f"{kind}_{name}", f"none_{name}", steps)

    return find


def smoother(kind: str, place: str, phase: str, said: str) -> tuple[Claim[Measured], ...]:
    """The averaged loss is smoother than the loss at the mean model, by both measures."""
    return (
        Claim(
            f"{said}, {place}",
            "λ_max by 10 % smaller",
            judged(_over_none(kind, "lambda_max", phase), SMOOTHER),
        ),
        Claim(
            "... over a step α g",
            "gradient difference by 10 % smaller",
            judged(_over_none(kind, "difference", phase), SMOOTHER),
        ),
    )


def _bound(made: Measured) -> Estimate | None:
    return made.ratio(made.size.alpha, "learners_bound", "gaussian1_lambda_max", made.size.early)


def _edge(arm: str) -> Find:
    """Of an arm, alpha lambda_max / 2 of the loss at the mean model: 1 at the edge of stability."""

    def find(made: Measured) -> Estimate | None:
        alpha = made.size.alpha
        return made.level(alpha, arm, "none_lambda_max", made.size.early, alpha / 2)

    return find


def _flatter(made: Measured) -> Estimate | None:
    size = made.size
    return made.against(size.alpha, DPSGD, SSGD, "none_lambda_max", size.early)


THEOREM = (
    *smoother(
        "gaussian1", "early", "early", "Gaussian noise of the learners' σ_w smooths the loss"
    ),
    *smoother("gaussian1", "late", "late", "The same"),
    *smoother("learners", "early", "early", "The learners' own places smooth it"),
    *smoother("learners", "late", "late", "The same"),
    *smoother("gaussian10", "early", "early", "Gaussian noise of 10 σ_w smooths it"),
    *smoother("gaussian30", "early", "early", "Gaussian noise of 30 σ_w smooths it"),
    Claim(
        "2G/σ_w is the smoothness within a factor of ten, early",
        "2G/σ_w over λ_max of the loss averaged over N(0, σ_w²) below 10",
        judged(_bound, Criterion(high=10.0)),
    ),
)
"""That averaging smooths, and by how much."""

INSTEAD = (
    Claim(
        "DPSGD's mean model is where the loss is flatter than where SSGD is, early",
        "λ_max over SSGD's after the same steps below 0.9",
        judged(_flatter, SMOOTHER),
    ),
    Claim("SSGD is beyond the edge of stability", "α λ_max/2 above 1, early",
          judged(_edge(SSGD), Criterion(low=1.0))),
    Claim("DPSGD is not", "below 1", judged(_edge(DPSGD), Criterion(high=1.0))),
)  # fmt: skip
"""What the curvature at the mean model says, without any averaging."""

SURVIVAL = (
    Claim(
        "Theorem 1's rate σ_w/(2G) tells which runs of DPSGD survive",
        "AUC above 0.7",
        judged(lambda made: made.tells("learners_bound", (DPSGD,)), TELLS),
    ),
    Claim(
        "λ_max of the loss averaged over the learners tells it",
        "AUC above 0.7",
        judged(lambda made: made.tells("learners_lambda_max", (DPSGD,)), TELLS),
    ),
    Claim(
        "λ_max at the mean model tells it",
        "AUC above 0.7",
        judged(lambda made: made.tells("none_lambda_max", (DPSGD,)), TELLS),
    ),
    Claim(
        "λ_max at the mean model tells which runs of both algorithms survive",
        "AUC above 0.7",
        judged(lambda made: made.tells("none_lambda_max"), TELLS),
    ),
    Claim(
        "... of those that are not dead by then (asked after the runs)",
        f"AUC above 0.7; left out: a loss of {DEAD:g} and more",
        judged(lambda made: made.tells("none_lambda_max", dead=DEAD), TELLS),
    ),
)
"""At the largest rate, where some survive and others die."""
CLAIMS = (*THEOREM, *INSTEAD, *SURVIVAL)
