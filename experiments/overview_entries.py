"""The papers' statements, each with the study that says what becomes of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from experiments.adadamp.size import IMAGES
from experiments.common.claims import Verdict
from experiments.common.scale import Scale
from experiments.common.statistics import Criterion
from experiments.date import claims as date
from experiments.noise.arms import ARMS, MATCHED, OWN, STRONG
from experiments.overview_criteria import (
    as_well,
    by_account,
    by_adadamp,
    by_date,
    by_fight,
    by_language,
    by_lena,
    by_nets,
    by_smoothness,
    flatter,
    more,
    rescued,
)
from experiments.reread import (
    best_error,
    correlation,
    early_rate,
    larger_rates,
    late_rate,
    ssgd_fails,
    ssgd_star,
)
from experiments.reread_rivals import (
    lena_over_adascale,
    lena_scaling,
    rivals,
    state_aware,
)

LOWER, FASHION = 1, 2
"""Places of the lower rate and of the second task among the cells of the study of noise."""


@dataclass(frozen=True)
class Entry:
    """A statement of a paper, and what its study has to say of it."""

    statement: str
    verdict: Callable[[Scale], Verdict]
    page: str
    """Where the study's own tables are."""
    measure: str = ""
    """What the effect is, where the words of the verdict do not say it."""
    is_detail: bool = False
    """Whether it is only among all verdicts, and not on the page of five minutes."""


SURVIVAL = "survivors of runs, difference"


def _detail(
    statement: str, verdict: Callable[[Scale], Verdict], page: str, measure: str = ""
) -> Entry:
    return Entry(statement, verdict, page, measure, is_detail=True)


def _noises(cell: int) -> Iterator[Entry]:
    """What is asked of each kind of noise, at one task and rate of the study."""
    at = (" at α = 1.5", " at α = 1.25", " on Fashion-MNIST")[cell]
    for name, said in (
        ("isotropic", "Isotropic noise, as strong as its own D, rescues SSGD"),
        ("gaussian", "... of the learners' covariance"),
        ("flipped", "... DPSGD's own with its sign turned"),
        ("twin", "... of another run of DPSGD"),
    ):
        yield _detail(said + at, rescued(name, cell), "noise", SURVIVAL)
        yield _detail("... as well as DPSGD does", as_well(name, cell), "noise", SURVIVAL)
    for name in (*STRONG, MATCHED):
        said = ARMS[name].label
        yield _detail(f"{said}: rescues SSGD" + at, rescued(name, cell), "noise", SURVIVAL)
        if cell != LOWER:  # of which it is on the page of five minutes
            yield _detail("... as well as DPSGD does", as_well(name, cell), "noise", SURVIVAL)
    if cell == LOWER:
        name, said = "strong-flipped", "... its own D of DPSGD's σ_w², its sign turned, as well"
        yield _detail(said + at, as_well(name, cell), "noise", SURVIVAL)


HALF = "α that half survive, difference"
POINTS = "points of test error"
RATES = (
    Entry(
        "DPSGD (W = 11ᵀ/n) survives larger rates than SSGD",
        by_fight("DPSGD with W = 11ᵀ/n bears"),
        "fight",
        HALF,
    ),
    _detail("... on a ring", by_fight("DPSGD on a ring bears larger"), "fight", HALF),
    _detail("... with one peer", by_fight("DPSGD with one peer bears larger"), "fight", HALF),
    Entry(
        "... with a random neighbour",
        by_fight("DPSGD with a random neighbour bears larger"),
        "fight",
        HALF,
    ),
    _detail("... W = 11ᵀ/n, the paper's four rates, five seeds", larger_rates, "dpsgd"),
    Entry(
        "SSGD fails at the paper's α = 1",
        by_fight("SSGD fails at the paper's"),
        "fight",
        "share that survives",
    ),
    _detail("... five seeds, 2,500 steps", ssgd_fails, "dpsgd"),
    Entry(
        "DPSGD (W = 11ᵀ/n) errs less than SSGD, each at its best rate",
        by_fight("DPSGD with W = 11ᵀ/n beats"),
        "fight",
        POINTS,
    ),
    _detail("... on a ring", by_fight("DPSGD on a ring beats"), "fight", POINTS),
    _detail("... with one peer", by_fight("DPSGD with one peer beats"), "fight", POINTS),
    Entry(
        "... with a random neighbour",
        by_fight("DPSGD with a random neighbour beats"),
        "fight",
        POINTS,
    ),
    Entry(
        "With batch and rate 32 times as large SSGD fails",
        by_fight("SSGD fails at the largest"),
        "fight",
        "survivors",
    ),
    Entry(
        "... where DPSGD with a random neighbour does not",
        by_fight("... where DPSGD with a random neighbour"),
        "fight",
        "survivors",
    ),
    Entry("DPSGD comes to 2.1 % of test error", best_error, "dpsgd"),
)
"""About learning rates and batches."""
REASONS = (
    Entry("Early, DPSGD's α_e is below 0.9 α by itself", early_rate, "dpsgd", "α_e/α"),
    _detail("... and within 15 % of α late", late_rate, "dpsgd", "α_e/α"),
    Entry(
        "... because gradients are taken where the learners are",
        by_account("... because gradients are taken where the learners are, not at their mean"),
        "account",
        "α_e/α less that at their mean",
    ),
    Entry("α_e falls where σ_w² is large", correlation, "dpsgd"),
    Entry(
        "... also at the same t and ‖g‖", by_account("... and the same ‖g‖"), "account", "partial ρ"
    ),
    _detail("Late, α_e is above α", by_account("Late, α_e is above α"), "account", "α_e/α"),
    _detail(
        "Early, Δ⁽²⁾ is above Δ_S",
        by_account("Early, Δ⁽²⁾ is larger than Δ_S"),
        "account",
        "lg Δ⁽²⁾/Δ_S",
    ),
    _detail("... and late below", by_account("Late, it is smaller"), "account", "lg Δ⁽²⁾/Δ_S"),
    Entry(
        "Δ = Δ_S + Δ⁽²⁾ (Eq. 5), early",
        by_account("Δ = Δ_S + Δ⁽²⁾ (Eq. 5), early"),
        "account",
        "what is left, as a share of Δ",
    ),
    _detail(
        "Δ⁽²⁾ is what Eq. 5's Hessian says, early",
        by_account("Δ⁽²⁾ = α² n⁻² Σ ‖H δw_j‖² (Eq. 5), early"),
        "account",
        "lg of their ratio",
    ),
    Entry("DPSGD survives α = 1.25 more often than SSGD", more(OWN, LOWER), "noise", SURVIVAL),
    Entry(
        "... SSGD with isotropic noise of DPSGD's σ_w² as often as DPSGD",
        as_well("strong-isotropic", LOWER),
        "noise",
        SURVIVAL,
    ),
    Entry("... of the learners' covariance", as_well("strong-gaussian", LOWER), "noise", SURVIVAL),
    Entry(
        "... DPSGD's own deviations, their sign drawn at every step",
        as_well("strong-signed", LOWER),
        "noise",
        SURVIVAL,
    ),
    Entry(
        "... no noise, but a rate that follows DPSGD's α_e",
        as_well(MATCHED, LOWER),
        "noise",
        SURVIVAL,
    ),
    _detail(
        "DPSGD survives α = 1.5 more often than SSGD, fresh seeds", more(OWN), "noise", SURVIVAL
    ),
    *_noises(0),
    *_noises(LOWER),
    _detail(
        "On Fashion-MNIST DPSGD survives α = 1 more often than SSGD",
        more(OWN, FASHION),
        "noise",
        SURVIVAL,
    ),
    *_noises(FASHION),
    Entry(
        "Averaged over N(0, σ_w²) the loss is smoother, early (Theorem 1)",
        by_smoothness("Gaussian noise of the learners' σ_w"),
        "smoothness",
        "λ_max over the loss's",
    ),
    _detail(
        "... over the learners' own places",
        by_smoothness("The learners' own places"),
        "smoothness",
        "λ_max over the loss's",
    ),
    _detail(
        "2G/σ_w is the smoothness, within a factor of ten",
        by_smoothness("2G/σ_w is"),
        "smoothness",
        "ratio",
    ),
    Entry(
        "Theorem 1's largest rate tells that α = 1 trains",
        by_account("Theorem 1's largest rate tells that this α trains"),
        "account",
        "lr_max/α",
    ),
    Entry(
        "At α = 1 DPSGD's mean model lies where the loss is flatter, early",
        by_smoothness("DPSGD's mean model"),
        "smoothness",
        "λ_max over SSGD's",
    ),
    _detail(
        "... SSGD is beyond the edge of stability there",
        by_smoothness("SSGD is beyond"),
        "smoothness",
        "α λ_max/2",
    ),
    _detail("... and DPSGD is not", by_smoothness("DPSGD is not"), "smoothness", "α λ_max/2"),
    _detail(
        "λ_max early tells which runs survive α = 1.5, of those not dead by then",
        by_smoothness("... of those that are not dead"),
        "smoothness",
        "AUC",
    ),
    Entry("SSGD\\* (noise in place of DPSGD's), tuned, errs more than DPSGD", ssgd_star, "dpsgd"),
)
"""About what makes DPSGD survive."""
MODELS = (
    *(
        Entry(
            f"{said}, α = {alpha}",
            flatter(words, cell),
            "flatness",
            measure,
            is_detail=alpha != "0.25" or words in ("trace", "test loss"),
        )
        for cell, alpha in enumerate(("0.25", "1"))
        for said, words, measure in (
            ("At the same training loss DPSGD's λ_max is smaller", "λ_max", "ratio at each loss"),
            ("... the trace", "trace", "ratio at each loss"),
            ("... and so is its test loss", "test loss", "ratio at each loss"),
            ("... and its test error", "test error", "points at each loss"),
        )
    ),
    Entry(
        "After a short warm-up a transformer survives higher peaks with DPSGD",
        by_language("With the shortest warm-up DPSGD"),
        "language",
        SURVIVAL,
    ),
    _detail(
        "... after a longer one", by_language("With the middle warm-up DPSGD"), "language", SURVIVAL
    ),
    Entry(
        "... after the longest", by_language("With the longest warm-up DPSGD"), "language", SURVIVAL
    ),
    Entry(
        "... and its test loss at its best peak is lower, after a short one",
        by_language("With the shortest warm-up, each"),
        "language",
        "nats a byte",
    ),
    _detail(
        "... after the longest",
        by_language("With the longest warm-up, each"),
        "language",
        "nats a byte",
    ),
    _detail(
        "... SSGD needs a long warm-up",
        by_language("SSGD needs"),
        "language",
        f"{SURVIVAL}, shortest less longest",
    ),
    _detail(
        "... and DPSGD does not",
        by_language("DPSGD does not"),
        "language",
        f"{SURVIVAL}, shortest less longest",
    ),
    Entry(
        "Convolutional nets come below 2 nats with DPSGD where they do not with SSGD",
        by_nets("DPSGD converges where SSGD"),
        "nets",
        SURVIVAL,
    ),
    _detail(
        "... where they do not with SSGD\\*, tuned",
        by_nets("DPSGD converges where tuned"),
        "nets",
        SURVIVAL,
    ),
    _detail(
        "... at half of SSGD's edge, where both do, they err less",
        by_nets("At half of it DPSGD is better"),
        "nets",
        POINTS,
    ),
    Entry(
        "An LSTM on speech converges with DPSGD where it does not with SSGD",
        by_nets("DPSGD converges where SSGD", "speech"),
        "nets",
        SURVIVAL,
    ),
    _detail(
        "... half of SSGD's edge, batch and rate: lower held-out loss",
        by_nets("At half of it DPSGD is better", "speech"),
        "nets",
        "nats",
    ),
)
"""About flatness, and nets beyond the MLP."""
DPSGD = (*RATES, *REASONS, *MODELS)
LENA = (
    *(
        Entry(f"{statement}, 20 epochs, each tuned", by_lena(statement), "lena")
        for statement in (
            "LENA is more accurate than AdaScale",
            "LENA is more accurate than LSW",
            "LENA's state-aware warm-up is better than a fixed one",
            "LENA keeps the single worker's accuracy at n = 64",
            "LENA keeps the single worker's accuracy at n = 16",
        )
    ),
    Entry(
        "LENA is more accurate than AdaScale, 4 epochs: base rate of one worker",
        partial(lena_over_adascale, tuned=False),
        "lena",
        is_detail=True,
    ),
    _detail("... tuned at each n", partial(lena_over_adascale, tuned=True), "rivals"),
    _detail("... both with no or fixed warm-up", lena_scaling, "lena"),
    _detail(
        "State-aware warm-up is better than a fixed one, 4 epochs: base rate of one worker",
        state_aware,
        "lena",
    ),
    Entry(
        "DPSGD is as good as SSGD, both tuned (within 0.5 points)",
        partial(rivals, ours="dpsgd-exp", theirs="ssgd", criterion=Criterion(high=0.5)),
        "rivals",
    ),
)
DATE = tuple(Entry(claim.statement, by_date(claim), "date") for claim in date.CLAIMS)
ADADAMP = (
    Entry(
        "All schedules end with the same test error",
        by_adadamp("Figs 3, 4"),
        "adadamp",
    ),
    Entry("... on CIFAR-10", by_adadamp("Figs 3, 4", IMAGES.dataset), "adadamp"),
    Entry("A batch that grows does what a falling rate does", by_adadamp("A batch"), "adadamp"),
    Entry("It beats a constant batch at a constant rate", by_adadamp("A growing"), "adadamp"),
    Entry("Every damper is as good as a falling rate", by_adadamp("Every"), "adadamp"),
    Entry("It works under DPSGD", by_adadamp("Batches that grow under"), "adadamp"),
)
PAPERS = {
    "DPSGD (arXiv 2112.01433)": DPSGD,
    "LENA, and all rivals on equal terms": LENA,
    "DATE (SC 2019)": DATE,
    "AdaDamp (SciPy 2021)": ADADAMP,
}
MAIN = {
    paper: [entry for entry in entries if not entry.is_detail] for paper, entries in PAPERS.items()
}
"""Without the details."""
