"""experiments/README.md: what each paper says, our verdict and the effect, from all studies."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from experiments.account import claims as account
from experiments.account import page as account_page
from experiments.account.groups import Measured as Account
from experiments.account.rows import read as read_account
from experiments.account.size import study as account_study
from experiments.adadamp import claims as adadamp
from experiments.adadamp import page as adadamp_page
from experiments.adadamp.size import FULL, IMAGES, studies
from experiments.common import tables
from experiments.common.claims import Verdict
from experiments.common.figures import save
from experiments.common.markdown import markdown, page
from experiments.common.scale import Scale
from experiments.common.statistics import Criterion
from experiments.fight import claims as fight
from experiments.fight import page as fight_page
from experiments.flatness import claims as flatness
from experiments.flatness import page as flatness_page
from experiments.flatness.plan import runs as flatness_runs
from experiments.language import claims as language
from experiments.language import page as language_page
from experiments.language.plan import runs as language_runs
from experiments.methods import page as methods_page
from experiments.nets import claims as nets
from experiments.nets import page as nets_page
from experiments.noise import claims as noise
from experiments.noise import page as noise_page
from experiments.noise.arms import ARMS, MATCHED, OWN, SSGD
from experiments.noise.groups import Measured
from experiments.overview_picture import survival, survival_curves
from experiments.overview_text import COSTS, DISAGREE, HEAD, REFEREE, UNFINISHED
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
    date_at_the_large_batch,
    lena_over_adascale,
    lena_scaling,
    lipschitz_later,
    rivals,
    state_aware,
)

PICTURE = "overview.png"
FASHION = 2
"""Place of the second task among the cells of the study of noise."""


@dataclass(frozen=True)
class Entry:
    """A statement of a paper, and what its study has to say of it."""

    statement: str
    verdict: Callable[[Scale], Verdict]
    page: str
    """Where the study's own tables are."""


def by_account(statement: str) -> Callable[[Scale], Verdict]:
    """A criterion of the study of the account, by its statement."""
    (claim,) = (c for c in (*account.RATES, *account.NOISES) if c.statement == statement)
    return lambda scale: claim.measured(account_rows(scale))


def account_rows(scale: Scale) -> Account:
    """What that study has."""
    return Account(account_study(scale), tuple(read_account(scale)))


def by_adadamp(statement: str, dataset: str = FULL.dataset) -> Callable[[Scale], Verdict]:
    """A criterion of the study of growing batches, by the beginning of its statement."""
    (claim,) = (claim for claim in adadamp.CLAIMS if claim.statement.startswith(statement))
    return lambda scale: claim.measured(adadamp_page.measured(scale, studies(scale)[dataset]))


def flatter(words: str, cell: int) -> Callable[[Scale], Verdict]:
    """A criterion of the study of flatness on W = J at one of its rates, by words in it."""
    claim = next(claim for claim in flatness.OF_RATES[cell] if words in claim.statement)
    return lambda scale: claim.measured(flatness_page.measured(scale))


def by_language(statement: str) -> Callable[[Scale], Verdict]:
    """A criterion of the study of language, by the beginning of its statement."""
    (claim,) = (claim for claim in language.CLAIMS if claim.statement.startswith(statement))
    return lambda scale: claim.measured(language_page.measured(scale))


def rescued(name: str, cell: int = 0) -> Callable[[Scale], Verdict]:
    """Whether an arm of the study of noise survives more often than SSGD, in one of its cells."""
    return _survives(noise.more, name, SSGD, cell)


def as_well(name: str, cell: int = 0) -> Callable[[Scale], Verdict]:
    """Whether it does as often as DPSGD."""
    return _survives(noise.as_many, name, OWN, cell)


def _survives(
    criterion: Callable[[str, str], Callable[[Measured], Verdict]],
    first: str,
    second: str,
    cell: int,
) -> Callable[[Scale], Verdict]:
    def verdict(scale: Scale) -> Verdict:
        cells = noise_page.measured(scale)
        if cell >= len(cells):  # a smoke test has one task
            return None
        made = cells[cell]
        judged = criterion(first, second)(made)
        counts = [[row.survived for row in made.arm(arm)] for arm in (first, second)]
        if judged is not None or not all(counts):
            return judged
        (a, m), (b, n) = ((sum(found), len(found)) for found in counts)
        wanted = len(made.size.seeds)
        return "open", f"so far {a} of {m} against {b} of {n}; judged at {wanted} each"

    return verdict


def by_fight(beginning: str) -> Callable[[Scale], Verdict]:
    """A criterion of the study of rates and tuned methods, by the beginning of its statement."""
    claims = (*fight.EDGE_CLAIMS, *fight.OVERALL, *fight.DOUBLED)
    (claim,) = (claim for claim in claims if claim.statement.startswith(beginning))

    def verdict(scale: Scale) -> Verdict:
        made = fight_page.measured(scale)
        so_far = ("open", "begun; judged when all runs it is about are there")
        return claim.measured(made) or (so_far if made.rows else None)

    return verdict


def by_nets(beginning: str, name: str | None = None) -> Callable[[Scale], Verdict]:
    """A criterion about one net, or all on images together, by the beginning of its statement."""

    def verdict(scale: Scale) -> Verdict:
        made = nets_page.measured(scale)
        about = [task for task in made.size.tasks if task.name == name]
        claims = nets.of_task(about[0]) if about else nets.together(made.size)
        (claim,) = (claim for claim in claims if claim.statement.startswith(beginning))
        so_far = ("open", "begun; judged when all runs it is about are there")
        return claim.measured(made) or (so_far if made.rows else None)

    return verdict


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
    Entry("SSGD\\* is worse than DPSGD, tuned", ssgd_star, "dpsgd"),
    Entry("DPSGD survives α = 1.5 and SSGD does not, fresh seeds", rescued(OWN), "noise"),
    Entry("Noise of DPSGD's strength rescues SSGD", rescued("isotropic"), "noise"),
    Entry("... as well as DPSGD does", as_well("isotropic"), "noise"),
    Entry("... of the learners' covariance, as well", as_well("gaussian"), "noise"),
    Entry("DPSGD's own with its sign turned, as well", as_well("flipped"), "noise"),
    Entry("... of another run of DPSGD, as well", as_well("twin"), "noise"),
    Entry("A rate that follows DPSGD's α_e rescues SSGD", rescued(MATCHED), "noise"),
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
    Entry(
        "LENA is more accurate than AdaScale: base rate of one worker",
        partial(lena_over_adascale, tuned=False),
        "lena",
    ),
    Entry("... tuned at each n", partial(lena_over_adascale, tuned=True), "rivals"),
    Entry("... both with no or fixed warm-up", lena_scaling, "lena"),
    Entry("State-aware warm-up is better than a fixed one", state_aware, "lena"),
    Entry(
        "DPSGD is as good as SSGD, both tuned (within 0.5 points)",
        partial(rivals, ours="dpsgd-exp", theirs="ssgd", criterion=Criterion(high=0.5)),
        "rivals",
    ),
)
DATE = (
    Entry(
        "No accuracy is lost at B = 8192 (0.2 points)",
        partial(date_at_the_large_batch, method="baseline"),
        "date",
    ),
    Entry(
        "DATE beats the manual schedule there",
        partial(date_at_the_large_batch, method="manual"),
        "date",
    ),
    Entry("The Lipschitz constant peaks later for larger batches", lipschitz_later, "date"),
)
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


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    parts = [HEAD, f"![survival over the learning rate](results/{PICTURE})\n"]
    for paper, entries in PAPERS.items():
        lines = [_cells(entry, scale) for entry in entries]
        head = ["is it so that ...?", "", "effect, 95 %", "page"]
        parts += [f"## {paper}\n", markdown(head, lines)]
    lacking = [
        *(f"still to run: {line}" for line in account_page.missing(account_rows(scale))),
        *_noise_missing(scale),
        *(f"still to run: flatness, {line}" for line in _flatness_missing(scale)),
        *(f"still to run: language, {line}" for line in _language_missing(scale)),
        *_fight_missing(scale),
        *(f"still to run: nets, {line}" for line in nets_page.missing(nets_page.measured(scale))),
        *(
            f"still to run: methods, {line}"
            for line in methods_page.missing(methods_page.measured(scale))
        ),
    ]
    parts += [
        DISAGREE,
        REFEREE,
        UNFINISHED + "".join(f"- {line}\n" for line in lacking),
        _costs(scale),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    scale.page.write_text(text(scale), encoding="utf-8")


def publish(scale: Scale) -> None:
    """Draw its picture, if there are runs."""
    curves = survival_curves(scale)
    if all(len(cells) > 1 for cells in curves.values()):
        save(survival(curves), scale.results / PICTURE)


def _cells(entry: Entry, scale: Scale) -> list[str]:
    verdict = entry.verdict(scale)
    link = f"[{entry.page}]({entry.page}.md)"
    if verdict is None:
        return [entry.statement, "-", "not run yet", link]
    met, numbers = verdict
    word = met if isinstance(met, str) else ("yes" if met else "no")
    return [entry.statement, {"yes": "**yes**", "no": "**no**"}.get(word, word), numbers, link]


def _noise_missing(scale: Scale) -> list[str]:
    cells = noise_page.measured(scale)
    planned = sum(len(made.size.seeds) * len(ARMS) for made in cells)
    done = len(cells[0].rows)
    return [] if done >= planned else [f"still to run: noise, {planned - done} of {planned} runs"]


def _flatness_missing(scale: Scale) -> list[str]:
    made = flatness_page.measured(scale)
    planned = len(flatness_runs(made.size))
    done = len(made.rows) // len(made.size.levels)
    return [] if done >= planned else [f"{planned - done} of {planned} runs"]


def _language_missing(scale: Scale) -> list[str]:
    made = language_page.measured(scale)
    planned, done = len(language_runs(made.size)), len(made.rows)
    return [] if done >= planned else [f"{planned - done} of {planned} runs"]


def _fight_missing(scale: Scale) -> list[str]:
    left = sum(fight_page.left(fight_page.measured(scale)).values())
    return [f"still to run: fight, {left:,} runs, more if its grids grow"] if left else []


def _costs(scale: Scale) -> str:
    """Core hours of the runs behind each table."""
    lines = []
    for file, name in COSTS.items():
        seconds = [float(row["seconds"] or "nan") for row in tables.read(scale.results / file)]
        finite = [value for value in seconds if math.isfinite(value)]
        if finite:
            lines.append([name, str(len(finite)), f"{sum(finite) / 3600:.1f}"])
    return "## What it cost\n\n" + markdown(["study", "runs", "core hours"], lines)
