"""Running a comparison: its runs are trained, taken up again and reported in one folder."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from rich.console import Console

from gossip.comm.connect import connect
from gossip.compare import metrics, pictures, rows, table
from gossip.compare.comparison import Comparison, TunedValues
from gossip.compare.plan import Cell, Entry, choose_values, entries, plan
from gossip.config import Config, to_tables
from gossip.errors import UserError
from gossip.report import Run, load_runs
from gossip.runs import sweep
from gossip.runs.dispatch import check_parts
from gossip.storage import folder as run_folder
from gossip.storage.tables import flat, read_toml
from gossip.study import prepare

FILE = "comparison.toml"
RUNS = "runs"
CSV = "comparison.csv"
PAGE = "comparison.md"
_WIDTH_OF_A_FILE = 200


def train(comparison: Comparison, folder: Path, *, jobs: int) -> None:
    """Train what is not finished: the trials, then the chosen values at all seeds.

    Args:
        comparison: what is compared.
        folder: finished runs in it of the same config are kept.
        jobs: runs at a time.

    Raises:
        UserError: a config that cannot be run, before any is; or a run that failed.
    """
    _refuse_another(comparison, folder)
    check(comparison)
    write(comparison, folder)
    if comparison.tune:
        _run(plan(comparison), "tuning", folder, jobs)
    chosen = choose_values(comparison, finished(entries(comparison), folder))
    _run(plan(comparison, chosen), "training", folder, jobs)


def check(comparison: Comparison) -> None:
    """Make everything a run needs, once for each method and n.

    Raises:
        UserError: a config that cannot be run.
    """
    seen: dict[Cell, Config] = {}
    for entry in entries(comparison):
        seen.setdefault(entry.cell, entry.config)
    for cell, config in seen.items():
        try:
            study = prepare(config, connect("stacked", config.gossip.learners))
            check_parts(study, config.algorithm[0])
        except UserError as error:
            raise UserError(f"{cell.method} with n = {cell.learners}: {error}") from error
        for warning in study.warnings:
            print(f"{cell.method} with n = {cell.learners}: note: {warning}", file=sys.stderr)


def finished(made: list[Entry], folder: Path) -> dict[str, Run]:
    """The runs of `made` that came to their end, by key."""
    return {
        entry.key: load_runs([folder / RUNS / entry.key])[0]
        for entry in made
        if sweep.is_finished(folder / RUNS / entry.key, entry.config)
    }


def report(comparison: Comparison, folder: Path, console: Console | None = None) -> list[rows.Row]:
    """Print the table of what is finished; write comparison.csv, comparison.md and the pictures.

    Returns:
        A row for each finished run.

    Raises:
        UserError: nothing is finished, or a file cannot be written.
    """
    console = console or Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    chosen = choose_values(comparison, finished(entries(comparison), folder))
    wanted = entries(comparison, chosen)
    runs = finished(wanted, folder)
    if not runs:
        raise UserError(f"no run of this comparison in {folder} is finished yet")
    made = rows.rows(comparison, chosen, runs)
    score = metrics.score(runs.values())
    title, notes = _title(comparison), table.meaning(comparison, made, score)
    if missing := _missing(comparison, chosen, len(wanted), len(runs)):
        notes.insert(0, missing)
    console.print(table.table(made, score, title))
    for note in notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    run_folder.write_text(folder / PAGE, table.markdown(made, score, title, notes))
    written = [folder / PAGE, rows.write_csv(made, folder / CSV)]
    for path in [*written, *pictures.draw(made, runs, folder)]:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    return made


def write(comparison: Comparison, folder: Path) -> None:
    """Write comparison.toml, making the folder.

    Raises:
        UserError: it cannot be written.
    """
    tables: dict[str, Any] = msgspec.to_builtins(comparison)
    tables = {key: value for key, value in tables.items() if value is not None}
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    text = tomli_w.dumps(tables | {"base": to_tables(comparison.base)})
    run_folder.write_text(folder / FILE, text)


def read(folder: Path) -> Comparison:
    """What `write` wrote.

    Raises:
        UserError: there is none, or it was changed to what cannot be compared.
    """
    path = folder / FILE
    try:
        return msgspec.convert(read_toml(path), Comparison)
    except OSError as error:
        raise UserError(f"no comparison in {folder}: cannot read {path}") from error
    except ValueError as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from error


def _refuse_another(comparison: Comparison, folder: Path) -> None:
    """A folder goes on with its comparison; other methods, n, seeds or trials only add to it.

    Raises:
        UserError: what all runs share is not what the folder's have.
    """
    if not (folder / FILE).exists():
        return
    old, new = (flat(to_tables(c.base)) for c in (read(folder), comparison))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            raise UserError(
                f"{folder} holds a comparison with {key} = {old.get(key)}, not {new.get(key)}: "
                "choose another --out or remove it"
            )


def _run(runs: Mapping[str, Config], what: str, folder: Path, jobs: int) -> None:
    left = sum(not sweep.is_finished(folder / RUNS / key, c) for key, c in runs.items())
    print(f"{what}: {len(runs)} runs, {left} to do -> {folder}", file=sys.stderr, flush=True)
    sweep.run_all(runs, folder / RUNS, jobs=jobs)


def _title(comparison: Comparison) -> str:
    base = comparison.base
    return (
        f"{base.data.dataset}, {base.model.model}, batch {base.data.batch_size} per learner, "
        f"{base.epochs:g} epochs of {comparison.samples} samples"
    )


def _missing(
    comparison: Comparison, chosen: Mapping[Cell, TunedValues], wanted: int, there: int
) -> str | None:
    """What is not finished, in words."""
    if comparison.tune and len(chosen) < len({e.cell for e in entries(comparison)}):
        return f"{there} runs are finished; tuning is not, and methods without it are left out."
    return f"{there} of {wanted} runs are finished." if there < wanted else None
