"""Runs that the studies still lack, and core hours of those that they have."""

import math

from experiments.account import page as account_page
from experiments.common import tables
from experiments.common.markdown import markdown
from experiments.common.scale import Scale
from experiments.date import page as date_page
from experiments.date.plan import PARTS
from experiments.fight import page as fight_page
from experiments.flatness import page as flatness_page
from experiments.flatness.plan import runs as flatness_runs
from experiments.language import page as language_page
from experiments.language.plan import runs as language_runs
from experiments.lena.tuned import section as lena_section
from experiments.methods import page as methods_page
from experiments.nets import page as nets_page
from experiments.noise import page as noise_page
from experiments.noise.arms import ARMS
from experiments.overview_criteria import (
    account_rows,
)
from experiments.overview_text import COSTS, WALL
from experiments.smoothness import page as smoothness_page


def missing(scale: Scale) -> list[str]:
    """A line for each study, or part of it, that has missing runs."""
    return [
        *(f"still to run: {line}" for line in account_page.missing(account_rows(scale))),
        *_noise_missing(scale),
        *(f"still to run: flatness, {line}" for line in _flatness_missing(scale)),
        *(f"still to run: language, {line}" for line in _language_missing(scale)),
        *_fight_missing(scale),
        *_lena_missing(scale),
        *_date_missing(scale),
        *(
            f"still to run: Theorem 1, {line}"
            for line in smoothness_page.missing(smoothness_page.measured(scale))
        ),
        *(f"still to run: nets, {line}" for line in nets_page.missing(nets_page.measured(scale))),
        *(
            f"still to run: methods, {line}"
            for line in methods_page.missing(methods_page.measured(scale))
        ),
    ]


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


def _lena_missing(scale: Scale) -> list[str]:
    made = lena_section.measured(scale)
    left = sum(made.left(cell) for cell in made.size.cells)
    return [f"still to run: LENA tuned, {left} runs, more if its grids grow"] if left else []


def _date_missing(scale: Scale) -> list[str]:
    made = date_page.measured(scale)
    left = sum(map(made.left, PARTS))
    return [f"still to run: DATE, {left} runs, more if its grids grow"] if left else []


def costs(scale: Scale) -> str:
    """Hours of the runs behind each table."""
    lines = [
        [name, f"{runs:,}", f"{hours:.1f}"] for name, (runs, hours) in _hours(scale).items() if runs
    ]
    head = ["study", "runs", "hours on one thread"]
    return f"## What it cost\n\n{WALL}\n" + markdown(head, lines)


def spent(scale: Scale) -> str:
    """The sum of them."""
    runs, hours = (sum(column) for column in zip(*_hours(scale).values(), strict=True))
    by_study = "[study by study](claims.md#what-it-cost)"
    return f"{runs:,.0f} runs, {hours:.0f} hours on one thread: {by_study}.\n"


def _hours(scale: Scale) -> dict[str, tuple[int, float]]:
    """Runs with a time, and hours of all of them, by study."""
    found = {}
    for file, name in COSTS.items():
        seconds = [float(row["seconds"] or "nan") for row in tables.read(scale.results / file)]
        finite = [value for value in seconds if math.isfinite(value)]
        found[name] = len(finite), sum(finite) / 3600
    return found
