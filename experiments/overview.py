"""experiments/README.md: what of four papers reproduces, on a page that is read in five minutes."""

from experiments.common.figures import save
from experiments.common.markdown import page
from experiments.common.scale import Scale
from experiments.overview_claims import table
from experiments.overview_entries import MAIN
from experiments.overview_missing import missing, spent
from experiments.overview_picture import survival, survival_curves
from experiments.overview_text import HEAD, MAKE_OF_IT, UNFINISHED, WORDS

PICTURE = "overview.png"


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    picture = f"![survival over the learning rate](results/{PICTURE})\n"
    tables = [table(paper, entries, scale) for paper, entries in MAIN.items()]
    left = UNFINISHED + "".join(f"- {line}\n" for line in missing(scale))
    parts = [HEAD, WORDS, picture, *tables, MAKE_OF_IT, left, spent(scale)]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    scale.page.write_text(text(scale), encoding="utf-8")


def publish(scale: Scale) -> None:
    """Draw its picture, if there are runs."""
    curves = survival_curves(scale)
    if all(len(cells) > 1 for cells in curves.values()):
        save(survival(curves), scale.results / PICTURE)
