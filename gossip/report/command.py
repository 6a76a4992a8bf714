"""`python -m gossip.report`: from run folders to a table, a picture, a CSV and a page."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from gossip import trace
from gossip.errors import UserError, one_of
from gossip.report.runs import Run, load_runs
from gossip.report.table import summary_table
from gossip.storage import folder as run_folder
from gossip.trackers import TRACKERS, Tracking, facts_of
from topologies.terminal import lossy_output

_WIDTH_OF_A_FILE = 160
_EXPORT_SECONDS = 600.0
"""What the last rows of a run may take at most."""
_STOPPED = 130
_HERE = "gossip-report.png"
"""The picture of runs from several folders; in the current one a figure.png may be the user's."""
_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Command:
    """Show what runs came to: a table here and a picture of their curves.

    Finished, diverged, running and killed runs alike; of the latter, what their traces hold.
    """

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help_behavior_hint=""),
    ]
    """Run folders, or study folders: those whose sub-folders are run folders; of several, those
    that are neither are left out."""
    csv: _File = None
    """Write the traces of all runs to this file, as one table with the run in its first column."""
    figure: _File = None
    """Draw here (.png, .svg or .pdf) and not to figure.png in the run or study folder, or, of runs
    from several folders, to gossip-report.png in the current one."""
    html: _File = None
    """Write one page that needs no other file: table, picture, curves to hover over, zoom and
    compare, their data as CSV, topologies and configurations."""
    export: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(TRACKERS))] = ()
    """Send the traces to these experiment trackers, whole."""
    phase: Annotated[tuple[str, str] | None, tyro.conf.arg(metavar="SETTING SETTING")] = None
    """Draw a phase diagram of a sweep to phase.png beside the picture, and write phase.csv: two
    settings, for example lr topology, against the share of runs that diverged and the mean test
    error of the others; in the page, too."""
    live: bool = False
    """Serve the page to a browser on this machine, with what is new every 5 seconds, until Ctrl-C
    (exit code 130); nothing is written."""
    port: Annotated[int, tyro.conf.arg(metavar="INT")] = 8765
    """Where --live listens; 0: any port that is free."""


def report(
    paths: Sequence[Path],
    *,
    csv: Path | None = None,
    figure: Path | None = None,
    html: Path | None = None,
    export: Sequence[str] = (),
    phase: tuple[str, str] | None = None,
    console: Console | None = None,
) -> list[Path]:
    """Print the table of the runs in `paths` and write their picture and what else is asked for.

    Args:
        paths: run or study folders.
        csv: where the traces go as CSV.
        figure: where the picture goes; by default figure.png in the folder of the run or study,
            or gossip-report.png in the current one if the runs do not lie in one folder.
        html: where the page goes.
        phase: two settings, whose diagram goes to phase.png and phase.csv beside the picture.
        export: trackers that get the traces, of `gossip.trackers.TRACKERS`.
        console: where the table goes; stdout by default.

    Returns:
        The files written, the picture first.

    Raises:
        UserError: no run, an unreadable file, or one that cannot be written; no such tracker.
    """
    for name in export:
        one_of(TRACKERS, name, "tracker")
    if not paths:
        raise UserError("no run given: name run folders, as in python -m gossip.report runs/A")
    runs = load_runs(paths)
    console = console or Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    if beside := [str(path) for path in paths if not run_folder.runs_in(Path(path))]:
        message = f"note: no run in {', '.join(beside)}"
        console.print(message, markup=False, highlight=False, soft_wrap=True)
    console.print(summary_table(runs, console.width))
    for run in runs:
        if reason := run.summary.get("verdict_reason"):
            step = run.summary.get("diverged_at_step")
            message = f"{run.label} diverged at step {step}: {reason}"
            console.print(message, markup=False, highlight=False, soft_wrap=True)
        if trace.torn(run.trace):
            rows = run.trace.num_rows
            message = f"{run.folder}: the end of its trace is torn; its {rows} whole rows are used"
            console.print(message, markup=False, style="yellow", soft_wrap=True)
    written = _write(runs, figure or _default_figure(runs), csv, html, phase)
    for name in export:
        console.print(f"{name}: {_exported(runs, name)} of {len(runs)} runs exported")
    for path in written:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    return written


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 2, after one sentence on stderr, if the user is wrong.

    It is 130 where Ctrl-C has ended what was served.
    """
    options = tyro.cli(Command, args=argv, prog="python -m gossip.report")
    try:
        if options.live:
            _serve(options)
        report(
            options.runs,
            csv=options.csv,
            figure=options.figure,
            html=options.html,
            export=options.export,
            phase=options.phase,
        )
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _STOPPED
    return 0


def _serve(options: Command) -> None:
    """Serve the page until Ctrl-C."""
    from gossip.report.live import serve

    if options.csv or options.figure or options.html or options.export:
        raise UserError("--live writes nothing: leave away --csv, --figure, --html and --export")
    if not options.runs:
        raise UserError("no run given: name run folders, as in gossip.report runs/A --live")
    serve(options.runs, options.port, options.phase, partial(print, flush=True))


def _write(
    runs: list[Run],
    figure: Path,
    csv: Path | None,
    html: Path | None,
    settings: tuple[str, str] | None,
) -> list[Path]:
    # Not at once: matplotlib takes a second to load.
    from gossip.report import export, figures, page, phase

    diagram = phase.phase(runs, *settings) if settings else None
    written = [figures.save(figures.study_figure(runs), figure)]
    if csv:
        written.append(export.write_csv(runs, csv))
    if html:
        written.append(page.write_html(runs, html, diagram))
    if diagram:
        beside = figure.with_name("phase.csv")
        run_folder.write_text(beside, phase.as_csv(diagram))
        written += [figures.save(phase.draw(diagram), figure.with_name("phase.png")), beside]
    return written


def _exported(runs: list[Run], tracker: str) -> int:
    """How many of the runs a tracker took; those that it did not it has warned of."""
    taken = 0
    for run in runs:
        about = facts_of(run.folder, run.config)
        tracking = Tracking(tracker, about, patient=True)
        rows = run.trace.to_pylist()
        tracking.rows([{k: v for k, v in row.items() if v is not None} for row in rows])
        tracking.close(_EXPORT_SECONDS)
        taken += tracking.done
    return taken


def _default_figure(runs: list[Run]) -> Path:
    if len(runs) == 1:
        return runs[0].folder / run_folder.FIGURE
    parents = {run.folder.resolve().parent for run in runs}
    return runs[0].folder.parent / run_folder.FIGURE if len(parents) == 1 else Path(_HERE)
