"""`python -m gossip.landscape`: from checkpoints to a table, landscape.json and a picture."""

import json
import math
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from gossip.errors import UserError
from gossip.landscape.measure import Landscape, Settings, measure
from gossip.landscape.replicas import Replicas, at_losses, at_steps, kept_steps, of_run
from gossip.storage.folder import find_runs, read_config, test_error, write_text
from topologies.terminal import lossy_output

NAME = "landscape"
"""Of what is left in a run's folder: landscape.json and landscape.png."""
_WIDTH_OF_A_FILE = 160


@dataclass(frozen=True)
class Command:
    """Show the loss about the learners of runs: how flat it is at their mean, and its contours.

    Of each run's newest checkpoint, whatever backend and number of processes wrote it, or of those
    where the training loss falls to given levels; on the CPU. A table here, landscape.json and
    landscape.png in each run's folder.
    """

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help_behavior_hint=""),
    ]
    """Run folders, or study folders: those whose sub-folders are run folders."""
    at_loss: tuple[float, ...] = ()
    """Measure where the training loss of the mean model is for the first time at most so much, at
    one place for each level, instead of at the end: among the checkpoints of --checkpoint-every,
    of which --checkpoint-keep has to keep enough. Writes landscape-loss0.1.json and .png."""
    at_step: tuple[int, ...] = ()
    """Measure after so many steps, where there is a checkpoint. Writes landscape-step100.json."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    trust: Annotated[tuple[str, ...], tyro.conf.arg(metavar="model|dataset|loss|topology")] = ()
    """Options that config.toml may name as module:function: code that is then run."""


def landscape(
    paths: Sequence[Path],
    settings: Settings | None = None,
    *,
    at_loss: Collection[float] = (),
    at_step: Collection[int] = (),
    trust: Collection[str] = (),
    console: Console | None = None,
) -> list[Landscape]:
    """Measure the runs in `paths`; writes landscape.json and landscape.png into their folders.

    Args:
        paths: run or study folders.
        settings: what is measured, and how finely.
        at_loss: levels of the training loss, see `replicas.at_losses`.
        at_step: steps, see `replicas.at_steps`; without both it is the newest checkpoint.
        trust: options that a config may name as `module:function`.
        console: where the table goes; stdout by default.

    Raises:
        UserError: no run, one without a checkpoint, a level that is no loss, or a file that
            cannot be written.
    """
    if not paths:
        raise UserError("no run given: name run folders, as in python -m gossip.landscape runs/A")
    for level in at_loss:
        if not 0 < level < math.inf:
            raise UserError(f"at_loss={level:g}: give losses above 0")
    for step in at_step:
        if step < 1:
            raise UserError(f"at_step={step}: give steps from 1 on")
    settings = settings or Settings()
    found: list[tuple[Path, Landscape]] = []
    written: list[Path] = []
    folders = find_runs(paths)
    for k, folder in enumerate(folders, start=1):
        print(f"{k}/{len(folders)}  {folder}: curvature, sharpness, contours", file=sys.stderr)
        try:
            for name, replicas in _places(folder, at_loss, at_step, settings, trust).items():
                start = time.perf_counter()
                shown = measure(replicas, settings)
                written += _write(folder / name, shown, settings, time.perf_counter() - start)
                found.append((folder, shown))
        except UserError as error:
            raise UserError(f"{folder.name}: {error}") from error
    if not found:
        return []
    console = console or Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    console.print(table(found))
    if settings.smoothed:
        console.print(smoothed_table(found))
    for path in written:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    return [shown for _, shown in found]


def at_level(level: float) -> str:
    """Name of what is measured at a level of the loss, without its suffix."""
    return f"{NAME}-loss{level:g}"


def after_step(step: int) -> str:
    """Name of what is measured after a step, without its suffix."""
    return f"{NAME}-step{step}"


def _places(
    folder: Path,
    at_loss: Collection[float],
    at_step: Collection[int],
    settings: Settings,
    trust: Collection[str],
) -> dict[str, Replicas]:
    """What is measured of a run, by the name of its files."""
    if not at_loss and not at_step:
        return {NAME: of_run(folder, trust)}
    there = at_losses(folder, at_loss, settings.samples, trust) if at_loss else {}
    after = at_steps(folder, at_step, trust) if at_step else {}
    for level in sorted(set(at_loss) - there.keys(), reverse=True):
        print(f"{folder}: no checkpoint with a training loss of {level:g}", file=sys.stderr)
    for step in sorted(set(at_step) - after.keys()):
        there_are = ", ".join(map(str, kept_steps(folder)))
        message = f"{folder}: no checkpoint after {step} steps; kept are those after {there_are}"
        print(message, file=sys.stderr)
    levels = {at_level(level): there[level] for level in sorted(there, reverse=True)}
    return levels | {after_step(step): after[step] for step in sorted(after)}


def table(found: Sequence[tuple[Path, Landscape]]) -> Table:
    """A line for each place that was measured of a run."""
    made = Table(header_style="bold")
    heads = _HEADS | {"test_error": test_error(read_config(folder) for folder, _ in found)}
    for name, head in heads.items():
        made.add_column(head, justify="left" if name == "run" else "right")
    for folder, shown in found:
        made.add_row(folder.name, *(_cell(shown, name) for name in list(_HEADS)[1:]))
    return made


def smoothed_table(found: Sequence[tuple[Path, Landscape]]) -> Table:
    """A line for each average of the loss, see `smoothing.smoothed`."""
    made = Table(header_style="bold", title="the loss averaged over places about w_a")
    heads = ("run", "step", "over", "σ", "loss", "λ max", "over a step α g", "2 G/σ")
    for head in heads:
        made.add_column(head, justify="left" if head in ("run", "over") else "right")
    for folder, shown in found:
        for kind, of in shown.smoothed.items():
            names = ("sigma", "loss", "lambda_max", "difference", "bound")
            cells = (f"{of[name]:.3g}" for name in names)
            made.add_row(folder.name, str(shown.step), kind, *cells)
    return made


def parse(argv: Sequence[str] | None) -> Command:
    """The command line.

    Raises:
        SystemExit: --help, or an option that does not exist.
    """
    prog, config = "python -m gossip.landscape", (tyro.conf.OmitArgPrefixes,)
    return tyro.cli(Command, args=argv, prog=prog, config=config)


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 2 for a user's mistake."""
    try:
        options = parse(argv)
        found = landscape(
            options.runs,
            options.settings,
            at_loss=options.at_loss,
            at_step=options.at_step,
            trust=options.trust,
        )
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not found:
        message = "nothing was measured: no run has a checkpoint of that --at-step or --at-loss"
        print(f"error: {message}", file=sys.stderr)
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


def _write(path: Path, shown: Landscape, settings: Settings, seconds: float) -> list[Path]:
    """Write the numbers, and draw what there is to draw; gives the files."""
    from gossip.landscape.pictures import picture
    from gossip.report.figures import save

    tables = shown.tables() | {"settings": vars(settings), "seconds": seconds}
    text = json.dumps(_finite(tables), indent=1, allow_nan=False) + "\n"
    written = [path.with_name(f"{path.name}.json")]
    write_text(written[0], text)
    if shown.lines or shown.contours:
        drawn = picture(shown, path.parent.name)
        written.append(save(drawn, path.with_name(f"{path.name}.png")))
    return written


def _finite(value: object) -> object:
    """JSON has no NaN and no infinity: they are null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
