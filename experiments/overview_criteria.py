"""Criteria of the studies by name, and what the rows that are there say of them."""

from collections.abc import Callable

from experiments.account import claims as account
from experiments.account.groups import Measured as Account
from experiments.account.rows import read as read_account
from experiments.account.size import study as account_study
from experiments.adadamp import claims as adadamp
from experiments.adadamp import page as adadamp_page
from experiments.adadamp.size import FULL, studies
from experiments.common.claims import Claim, Verdict
from experiments.common.scale import Scale
from experiments.date import page as date_page
from experiments.date.groups import Measured as Date
from experiments.fight import claims as fight
from experiments.fight import page as fight_page
from experiments.flatness import claims as flatness
from experiments.flatness import page as flatness_page
from experiments.language import claims as language
from experiments.language import page as language_page
from experiments.lena.tuned import claims as lena
from experiments.lena.tuned import section as lena_section
from experiments.nets import claims as nets
from experiments.nets import page as nets_page
from experiments.noise import claims as noise
from experiments.noise import page as noise_page
from experiments.noise.arms import OWN, SSGD
from experiments.noise.groups import Measured
from experiments.smoothness import claims as smoothness
from experiments.smoothness import page as smoothness_page


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


def more(name: str, cell: int = 0) -> Callable[[Scale], Verdict]:
    """Whether an arm of the study of noise survives more often than SSGD, in one of its cells."""
    return _survives(noise.more, name, SSGD, cell)


def rescued(name: str, cell: int = 0) -> Callable[[Scale], Verdict]:
    """Whether a quarter more of its runs survive: a criterion that can be denied."""
    return _survives(noise.many_more, name, SSGD, cell)


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
        return criterion(first, second)(made)

    return verdict


def by_fight(beginning: str) -> Callable[[Scale], Verdict]:
    """A criterion of the study of rates and tuned methods, by the beginning of its statement."""
    claims = (*fight.EDGE_CLAIMS, *fight.OVERALL, *fight.DOUBLED)
    (claim,) = (claim for claim in claims if claim.statement.startswith(beginning))
    return lambda scale: claim.measured(fight_page.measured(scale))


def by_lena(statement: str) -> Callable[[Scale], Verdict]:
    """A criterion of LENA's tables with every cell tuned, by its statement."""
    claim = next(claim for claim in lena.CLAIMS if claim.statement == statement)
    return lambda scale: claim.measured(lena_section.measured(scale))


def by_date(claim: Claim[Date]) -> Callable[[Scale], Verdict]:
    """A criterion of the study of DATE."""
    return lambda scale: claim.measured(date_page.measured(scale))


def by_nets(beginning: str, name: str | None = None) -> Callable[[Scale], Verdict]:
    """A criterion about one net, or all on images together, by the beginning of its statement."""

    def verdict(scale: Scale) -> Verdict:
        made = nets_page.measured(scale)
        about = [task for task in made.size.tasks if task.name == name]
        claims = nets.of_task(about[0]) if about else nets.together(made.size)
        (claim,) = (claim for claim in claims if claim.statement.startswith(beginning))
        return claim.measured(made)

    return verdict


def by_smoothness(beginning: str) -> Callable[[Scale], Verdict]:
    """A criterion of the study of Theorem 1, by the beginning of its statement."""
    (claim,) = (claim for claim in smoothness.CLAIMS if claim.statement.startswith(beginning))
    return lambda scale: claim.measured(smoothness_page.measured(scale))
