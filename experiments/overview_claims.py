"""experiments/claims.md: every statement of the papers that was tried, our verdict, the effect."""

from collections.abc import Iterable
from pathlib import Path

from experiments.common.markdown import markdown, page
from experiments.common.scale import Scale
from experiments.overview_entries import PAPERS, Entry
from experiments.overview_missing import costs
from experiments.overview_text import ALL, DISAGREE, REFEREE

UNJUDGED = "runs are to come"


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("claims.md")


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    tables = [table(paper, entries, scale) for paper, entries in PAPERS.items()]
    return page([ALL, *tables, DISAGREE, REFEREE, costs(scale)], is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def table(paper: str, entries: Iterable[Entry], scale: Scale) -> str:
    """What there is to say of statements of a paper: a line for each."""
    head = ["is it so that ...?", "", "effect, 95 %", "page"]
    return f"## {paper}\n\n" + markdown(head, [_cells(entry, scale) for entry in entries])


def _cells(entry: Entry, scale: Scale) -> list[str]:
    verdict = entry.verdict(scale)
    link = f"[{entry.page}]({entry.page}.md)"
    if verdict is None:
        return [entry.statement, "-", UNJUDGED, link]
    met, numbers = verdict
    word = met if isinstance(met, str) else ("yes" if met else "no")
    said = f"{entry.measure}: {numbers}" if entry.measure else numbers
    return [entry.statement, {"yes": "**yes**", "no": "**no**"}.get(word, word), said, link]
