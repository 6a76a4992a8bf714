"""experiments/README.md: what each paper says, our verdict and the effect, from all studies."""

from experiments.common.figures import save
from experiments.common.markdown import markdown, page
from experiments.common.scale import Scale
from experiments.overview_entries import PAPERS, Entry
from experiments.overview_missing import costs, missing
from experiments.overview_picture import survival, survival_curves
from experiments.overview_text import DISAGREE, HEAD, REFEREE, UNFINISHED

PICTURE = "overview.png"


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    parts = [HEAD, f"![survival over the learning rate](results/{PICTURE})\n"]
    for paper, entries in PAPERS.items():
        lines = [_cells(entry, scale) for entry in entries]
        head = ["is it so that ...?", "", "effect, 95 %", "page"]
        parts += [f"## {paper}\n", markdown(head, lines)]
    parts += [
        DISAGREE,
        REFEREE,
        UNFINISHED + "".join(f"- {line}\n" for line in missing(scale)),
        costs(scale),
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
