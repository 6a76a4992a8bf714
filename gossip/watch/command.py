"""`python -m gossip.watch`: draw, and draw again until the runs are over."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from gossip.errors import UserError
from gossip.report.runs import Run, load_runs
from gossip.storage import folder as run_folder
from gossip.storage.names import FINAL, LOCK
from gossip.watch.curves import PanelStyle, picture
from topologies.terminal import lossy_output

_WIDTH_OF_A_FILE = 100
_STOPPED = 130


@dataclass(frozen=True)
class Command:
    """Draw training loss, test error, alpha_e/alpha and sigma_w2 of runs in the terminal.

    Of runs that go on, again and again until all are over or Ctrl-C (exit code 130).
    """

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help_behavior_hint=""),
    ]
    """Run folders, or study folders: those whose sub-folders are run folders."""
    every: float = 5.0
    """Seconds from one drawing to the next."""
    once: bool = False
    """Draw once, also what goes on."""


def watch(
    paths: Sequence[Path],
    *,
    every: float = 5.0,
    once: bool = False,
    console: Console | None = None,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Draw the runs in `paths` until all are over.

    A run goes on while it has no summary.json, or one that is not final beside a lock file. One
    that was killed with -9 looks like that as well.

    Args:
        paths: run or study folders.
        every: seconds between two drawings.
        once: end after the first.
        console: where it is drawn; stdout by default.
        wait: sleeps for so many seconds.

    Raises:
        UserError: no run, an unreadable file, or seconds that are none.
    """
    if not paths:
        raise UserError("no run given: name run folders, as in python -m gossip.watch runs/A")
    if not 0 < every <= 86400:
        raise UserError(f"every={every:g}: give seconds above 0 and up to a day, 86400")
    console = console or Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    while True:
        # Looked at before the trace is read: what is then over is drawn to its last row.
        folders = run_folder.find_runs(paths)
        over = all(map(_is_over, folders))
        _draw(load_runs(folders), console)
        if over or once:
            return
        wait(every)


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 2 for a user's mistake and 130 after Ctrl-C."""
    options = tyro.cli(Command, args=argv, prog="python -m gossip.watch")
    try:
        watch(options.runs, every=options.every, once=options.once)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _STOPPED
    return 0


def _is_over(folder: Path) -> bool:
    verdict = run_folder.read_summary(folder).get("verdict")
    return verdict in FINAL or (verdict is not None and not (folder / LOCK).exists())


def _draw(runs: list[Run], console: Console) -> None:
    """One drawing, in place of the last where that can be."""
    no_colours = console.color_system is None and len(runs) > 1
    is_ascii = console.options.ascii_only
    look = PanelStyle(console.width, marks=is_ascii or no_colours)
    if console.is_terminal:
        console.clear()
    console.print(picture(runs, look), highlight=False)
