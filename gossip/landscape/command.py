"""`python -m gossip.landscape`: from checkpoints to a table, landscape.json and a picture."""

import json
import math
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from gossip.errors import UserError
from gossip.landscape.measure import Landscape, Settings, measure
from gossip.landscape.replicas import of_run
from gossip.storage.folder import find_runs, read_config, test_error, write_text
from topologies.terminal import lossy_output

DATA, PICTURE = "landscape.json", "landscape.png"
"""What is left in a run's folder."""
_WIDTH_OF_A_FILE = 160


@dataclass(frozen=True)
class Options:
    """Show the loss about the learners of runs: how flat it is at their mean, and its contours.

    Of each run's newest checkpoint, whatever backend and number of processes wrote it; on the CPU.
    A table here, landscape.json and landscape.png in each run's folder.
    """

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help_behavior_hint=""),
    ]
    """Run folders, or study folders: those whose sub-folders are run folders."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    trust: Annotated[tuple[str, ...], tyro.conf.arg(metavar="model|dataset|loss|topology")] = ()
    """Options that config.toml may name as module:function: code that is then run."""


def landscape(
    paths: Sequence[Path],
    settings: Settings | None = None,
    *,
    trust: Collection[str] = (),
    console: Console | None = None,
) -> list[Landscape]:
    """Measure the runs in `paths`; writes landscape.json and landscape.png into their folders.

    Args:
        paths: run or study folders.
        settings: what is measured, and how finely.
        trust: options that a config may name as `module:function`.
        console: where the table goes; stdout by default.

    Raises:
        UserError: no run, one without a checkpoint, or a file that cannot be written.
    """
    if not paths:
        raise UserError("no run given: name run folders, as in python -m gossip.landscape runs/A")
    settings = settings or Settings()
    found = {}
    folders = find_runs(paths)
    for k, folder in enumerate(folders, start=1):
        print(f"{k}/{len(folders)}  {folder}: curvature, sharpness, contours", file=sys.stderr)
        try:
            found[folder] = measure(of_run(folder, trust), settings)
        except UserError as error:
            raise UserError(f"{folder.name}: {error}") from error
        _write(folder, found[folder], settings)
    console = console or Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    console.print(table(found))
    return list(found.values())


def table(found: dict[Path, Landscape]) -> Table:
    """A line for each run."""
    made = Table(header_style="bold")
    heads = _HEADS | {"test_error": test_error(map(read_config, found))}
    for name, head in heads.items():
        made.add_column(head, justify="left" if name == "run" else "right")
    for folder, shown in found.items():
        made.add_row(folder.name, *(_cell(shown, name) for name in list(_HEADS)[1:]))
    return made


def parse(argv: Sequence[str] | None) -> Options:
    """The command line.

    Raises:
        SystemExit: --help, or an option that does not exist.
    """
    prog, config = "python -m gossip.landscape", (tyro.conf.OmitArgPrefixes,)
    return tyro.cli(Options, args=argv, prog=prog, config=config)


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 2 for a user's mistake."""
    try:
        options = parse(argv)
        landscape(options.runs, options.settings, trust=options.trust)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


_HEADS = {
    "run": "run",
    "step": "step",
    "loss": "loss at w_a",
    "learners_loss": "learners'",
    "test_error": "test error",
    "consensus_distance": "Ξ",
    "grad_norm": "‖g‖",
    "lambda_max": "λ max",
    "lambda_min": "λ min",
    "trace": "trace",
    "ascent": "up g",
    "random": "random",
}


def _cell(shown: Landscape, name: str) -> str:
    if name == "step":
        return str(shown.step)
    value = shown.numbers[name]
    if name == "test_error":
        return f"{value:.2%}"
    error = shown.numbers.get(f"{name}_error", math.nan)
    return f"{value:.3g}" + (f" ± {error:.1g}" if math.isfinite(error) else "")


def _write(folder: Path, shown: Landscape, settings: Settings) -> None:
    from gossip.landscape.pictures import picture
    from gossip.report.figures import save

    tables = shown.tables() | {"settings": vars(settings)}
    write_text(folder / DATA, json.dumps(_finite(tables), indent=1, allow_nan=False) + "\n")
    if settings.grid:
        save(picture(shown, folder.name), folder / PICTURE)


def _finite(value: object) -> object:
    """JSON has no NaN and no infinity: they are null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
