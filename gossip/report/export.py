"""Export of runs: one CSV of all traces, one self-contained HTML page."""

import html
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from gossip.errors import UserError
from gossip.report.figures import study_figure, svg
from gossip.report.runs import Run, heading
from gossip.report.table import cells, cells_shown
from gossip.storage import folder as run_folder
from gossip.storage.tables import flat

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
th, td {{ border-bottom: 1px solid #ddd; padding: .3rem .7rem; text-align: left }}
svg {{ height: auto; max-width: 100%; margin: 1.5rem 0 }}
pre {{ overflow-x: auto }}
</style>
<h1>{title}</h1>
<table>
<tr>{head}</tr>
{rows}
</table>
{figure}
<h2>Configurations</h2>
{configs}
</html>
"""


def write_csv(runs: list[Run], path: Path) -> Path:
    """Write the rows of all traces below each other, with the run's label before them.

    A cell is empty where a run recorded nothing; numbers are written so that they read back equal.

    Raises:
        UserError: the file cannot be written.
    """
    tables = []
    for run in runs:
        label = pa.array([run.label] * run.trace.num_rows, pa.string())
        tables.append(run.trace.replace_schema_metadata().add_column(0, "run", label))
    try:
        csv.write_csv(pa.concat_tables(tables, promote_options="default"), path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error}") from error
    return path


def write_html(runs: list[Run], path: Path) -> Path:
    """Write a page with the table, the figure and the configurations, and no external resource.

    Raises:
        UserError: the file cannot be written.
    """
    rows = [cells(run) for run in runs]
    shown = cells_shown(rows)
    page = _PAGE.format(
        title=html.escape(heading(runs) or "gossip"),
        head="".join(f"<th>{html.escape(name)}" for name in shown),
        rows="\n".join(f"<tr>{_cells(row, shown)}</tr>" for row in rows),
        figure=svg(study_figure(runs)),
        configs="\n".join(_details(run) for run in runs),
    )
    run_folder.write_text(path, page)
    return path


def _cells(row: dict[str, str], shown: list[str]) -> str:
    return "".join(f"<td>{html.escape(row[name])}" for name in shown)


def _details(run: Run) -> str:
    text = "\n".join(f"{key} = {value!r}" for key, value in flat(run.config).items())
    summary = f"{run.label}: {run.folder}"
    return (
        f"<details><summary>{html.escape(summary)}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
    )
