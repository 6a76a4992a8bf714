"""One self-contained file: table, picture and curves of runs, their topologies and configs."""

import html
import json
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gossip.report.figures import study_figure, svg
from gossip.report.page.graphs import graphs, spectrum
from gossip.report.page.points import MOST_POINTS, curves
from gossip.report.phase import PhaseDiagram, as_csv, draw
from gossip.report.runs import Run, heading, test_error
from gossip.report.table import cells, cells_shown, head
from gossip.storage import folder as run_folder
from gossip.storage.tables import flat

if TYPE_CHECKING:
    from topologies.topology import Topology


def write_html(runs: list[Run], path: Path, diagram: PhaseDiagram | None = None) -> Path:
    """Write the page of `runs`: it needs no other file, and without JavaScript it can be read.

    Raises:
        UserError: the file cannot be written.
    """
    run_folder.write_text(path, page(runs, diagram))
    return path


def page(runs: list[Run], diagram: PhaseDiagram | None = None, *, every: int = 0) -> str:
    """The page as text.

    Args:
        runs: what it shows.
        diagram: of their phases, if wanted.
        every: after how many seconds it asks whoever serves it for what is new; 0: never.
    """
    drawn = graphs(runs)
    found = numbers(runs)
    data = found | {"spectra": [spectrum(one) for one in drawn], "every": every}
    refresh = f'<noscript><meta http-equiv="refresh" content="{every}"></noscript>'
    return Template(_part("page.html")).substitute(
        title=html.escape(heading(runs) or "gossip"),
        css=_part("page.css"),
        js=_part("page.js"),
        refresh=refresh if every else "",
        head="".join(f"<th>{html.escape(name)}" for name in found["head"]),
        rows="\n".join(f"<tr>{_cells(row)}</tr>" for row in found["rows"]),
        note=_note(runs),
        figure=svg(study_figure(runs)),
        phase="" if diagram is None else _phase(diagram),
        topologies=_topologies(drawn),
        configs="\n".join(_details(run) for run in runs),
        # "</script>" in a text would end the element: there is no "<" in it then.
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    )


def numbers(runs: list[Run]) -> dict[str, Any]:
    """What changes while runs go on: their curves, and the table's heads and rows of texts."""
    rows = [cells(run) for run in runs]
    shown = cells_shown(rows)
    return {
        "runs": curves(runs),
        "names": {"test_error": test_error(runs)},
        "head": [head(name, runs) for name in shown],
        "rows": [[row[name] for name in shown] for row in rows],
    }


def _note(runs: list[Run]) -> str:
    if max((run.trace.num_rows for run in runs), default=0) <= MOST_POINTS:
        return ""
    return (
        f"A curve has at most {MOST_POINTS} points here, the least and the largest of each "
        "stretch: gossip.report --csv writes every row."
    )


def _phase(diagram: PhaseDiagram) -> str:
    """A section with the picture, and its numbers to be saved."""
    return (
        f'<h2>Phase diagram</h2>\n<div class="drawn">{svg(draw(diagram))}</div>\n'
        f'<p><a download="phase.csv" href="data:text/csv,{quote(as_csv(diagram))}">its numbers as '
        "CSV</a></p>"
    )


def _topologies(drawn: "list[Topology]") -> str:
    """A section with the pictures; each has a button that saves its eigenvalues."""
    if not drawn:
        return ""
    from topologies.plot import figure_of

    parts = [
        f'<div class="drawn">{svg(figure_of([topology]))}</div>'
        f'<p><button type="button" data-spectrum="{k}" hidden>eigenvalues of W as CSV</button></p>'
        for k, topology in enumerate(drawn)
    ]
    return "<h2>Topology</h2>\n" + "\n".join(parts)


def _cells(row: list[str]) -> str:
    return "".join(f"<td>{html.escape(text)}" for text in row)


def _details(run: Run) -> str:
    text = "\n".join(f"{key} = {value!r}" for key, value in flat(run.config).items())
    summary = f"{run.label}: {run.folder}"
    return (
        f"<details><summary>{html.escape(summary)}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
    )


def _part(name: str) -> str:
    return (resources.files("gossip.report.page") / name).read_text(encoding="utf-8")
