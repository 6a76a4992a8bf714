"""The papers' statements, each with the study that says what becomes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from experiments.adadamp.size import IMAGES
from experiments.common.claims import Verdict
from experiments.common.scale import Scale
from experiments.common.statistics import Criterion
from experiments.date import claims as date
from experiments.noise.arms import MATCHED, OWN
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


DPSGD = (
    Entry("DPSGD bears larger rates than SSGD", larger_rates, "dpsgd"),
    Entry("... fresh seeds, seven rates", by_fight("DPSGD with W = 11ᵀ/n bears"), "fight"),
    Entry("... on a ring", by_fight("DPSGD on a ring bears larger"), "fight"),
    Entry("... with one peer", by_fight("DPSGD with one peer bears larger"), "fight"),
    Entry(
        "... with a random neighbour",
        by_fight("DPSGD with a random neighbour bears larger"),
        "fight",
    ),
    Entry("SSGD fails at α = 1", ssgd_fails, "dpsgd"),
    Entry("... fresh seeds", by_fight("SSGD fails at the paper's"), "fight"),
    Entry(
        "DPSGD beats SSGD, both tuned: W = 11ᵀ/n", by_fight("DPSGD with W = 11ᵀ/n beats"), "fight"
    ),
    Entry("... on a ring", by_fight("DPSGD on a ring beats"), "fight"),
    Entry("... with one peer", by_fight("DPSGD with one peer beats"), "fight"),
    Entry("... with a random neighbour", by_fight("DPSGD with a random neighbour beats"), "fight"),
    Entry("Batch and rate times 32, SSGD fails", by_fight("SSGD fails at the largest"), "fight"),
    Entry(
        "... where DPSGD with a random neighbour does not",
        by_fight("... where DPSGD with a random neighbour"),
        "fight",
    ),
    Entry("DPSGD comes to 2.1 %", best_error, "dpsgd"),
    Entry("Its α_e is below 0.9 α early, by itself", early_rate, "dpsgd"),
    Entry("... and within 15 % of α late", late_rate, "dpsgd"),
    Entry("α_e falls where σ_w² is large", correlation, "dpsgd"),
    Entry("... also at the same t and ‖g‖", by_account("... and the same ‖g‖"), "account"),
    Entry(
        "Early, it is the learners' places that lower α_e",
        by_account("... because gradients are taken where the learners are, not at their mean"),
        "account",
    ),
    Entry("Late, α_e is above α", by_account("Late, α_e is above α"), "account"),
    Entry("Early, Δ⁽²⁾ is above Δ_S", by_account("Early, Δ⁽²⁾ is larger than Δ_S"), "account"),
    Entry("... and late below", by_account("Late, it is smaller"), "account"),
    Entry("Δ = Δ_S + Δ⁽²⁾, early", by_account("Δ = Δ_S + Δ⁽²⁾ (Eq. 5), early"), "account"),
    Entry(
        "Δ⁽²⁾ is what Eq. 5's Hessian says, early",
        by_account("Δ⁽²⁾ = α² n⁻² Σ ‖H δw_j‖² (Eq. 5), early"),
        "account",
    ),
    Entry(
        "Theorem 1's largest rate tells that α = 1 trains",
        by_account("Theorem 1's largest rate tells that this α trains"),
        "account",
    ),
    Entry(
        "The loss averaged over N(0, σ_w²) is smoother, early (Theorem 1)",
        by_smoothness("Gaussian noise of the learners' σ_w"),
        "smoothness",
    ),
    Entry(
        "... over the learners' own places",
        by_smoothness("The learners' own places"),
        "smoothness",
    ),
    Entry(
        "2G/σ_w is the smoothness, within a factor of ten",
        by_smoothness("2G/σ_w is"),
        "smoothness",
    ),
    Entry(
        "DPSGD's mean model lies where the loss is flatter than where SSGD is, α = 1, early",
        by_smoothness("DPSGD's mean model"),
        "smoothness",
    ),
    Entry(
        "... SSGD is beyond the edge of stability there",
        by_smoothness("SSGD is beyond"),
        "smoothness",
    ),
    Entry("... and DPSGD is not", by_smoothness("DPSGD is not"), "smoothness"),
    Entry(
        "λ_max early tells which runs survive α = 1.5",
        by_smoothness("λ_max at the mean model tells which runs of both"),
        "smoothness",
    ),
    Entry("SSGD\\* is worse than DPSGD, tuned", ssgd_star, "dpsgd"),
    Entry("DPSGD survives α = 1.5 and SSGD does not, fresh seeds", rescued(OWN), "noise"),
    Entry("Noise of DPSGD's strength rescues SSGD", rescued("isotropic"), "noise"),
    Entry("... as well as DPSGD does", as_well("isotropic"), "noise"),
    Entry("... of the learners' covariance, as well", as_well("gaussian"), "noise"),
    Entry("DPSGD's own with its sign turned, as well", as_well("flipped"), "noise"),
    Entry("... of another run of DPSGD, as well", as_well("twin"), "noise"),
    Entry("A rate that follows DPSGD's α_e rescues SSGD", rescued(MATCHED), "noise"),
    Entry("At α = 1.25 DPSGD survives more often than SSGD", rescued(OWN, LOWER), "noise"),
    Entry("... noise of DPSGD's strength more often", rescued("isotropic", LOWER), "noise"),
    Entry("... as often as DPSGD", as_well("isotropic", LOWER), "noise"),
    Entry("... of the learners' covariance, as often", as_well("gaussian", LOWER), "noise"),
    Entry("... of another run of DPSGD, as often", as_well("twin", LOWER), "noise"),
    Entry("... a rate that follows DPSGD's α_e, as often", as_well(MATCHED, LOWER), "noise"),
    Entry(
        "On Fashion-MNIST DPSGD survives α = 1 more often than SSGD",
        rescued(OWN, FASHION),
        "noise",
    ),
    Entry("... noise of DPSGD's strength as well", as_well("isotropic", FASHION), "noise"),
    Entry("... of the learners' covariance", as_well("gaussian", FASHION), "noise"),
    Entry("... of another run of DPSGD", as_well("twin", FASHION), "noise"),
    Entry("... a rate that follows DPSGD's α_e", as_well(MATCHED, FASHION), "noise"),
    *(
        Entry(f"{said}, α = {alpha}", flatter(words, cell), "flatness")
        for cell, alpha in enumerate(("0.25", "1"))
        for said, words in (
            ("Its minimum is flatter at the same training loss: λ_max", "λ_max"),
            ("... the trace", "trace"),
            ("... and it generalises better there: test loss", "test loss"),
            ("... test error", "test error"),
        )
    ),
    Entry(
        "A transformer bears higher peaks after a short warm-up with DPSGD",
        by_language("With the shortest warm-up DPSGD"),
        "language",
    ),
    Entry("... after a longer one", by_language("With the middle warm-up DPSGD"), "language"),
    Entry("... after the longest", by_language("With the longest warm-up DPSGD"), "language"),
    Entry(
        "... and its test loss at its best peak is lower, after a short one",
        by_language("With the shortest warm-up, each"),
        "language",
    ),
    Entry("... after the longest", by_language("With the longest warm-up, each"), "language"),
    Entry("... SSGD needs a long warm-up", by_language("SSGD needs"), "language"),
    Entry("... and DPSGD does not", by_language("DPSGD does not"), "language"),
    Entry(
        "Convolutional nets converge with DPSGD where they do not with SSGD",
        by_nets("DPSGD converges where SSGD"),
        "nets",
    ),
    Entry("... with SSGD\\*, tuned", by_nets("DPSGD converges where tuned"), "nets"),
    Entry(
        "... at half of SSGD's edge, where both do, they err less",
        by_nets("At half of it DPSGD is better"),
        "nets",
    ),
    Entry(
        "An LSTM on speech converges with DPSGD where it does not with SSGD",
        by_nets("DPSGD converges where SSGD", "speech"),
        "nets",
    ),
    Entry(
        "... half of SSGD's edge, batch and rate: lower held-out loss",
        by_nets("At half of it DPSGD is better", "speech"),
        "nets",
    ),
)
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
    ),
    Entry("... tuned at each n", partial(lena_over_adascale, tuned=True), "rivals"),
    Entry("... both with no or fixed warm-up", lena_scaling, "lena"),
    Entry(
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
