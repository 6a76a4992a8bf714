"""experiments/nets.md is written from the committed table alone, so that it cannot drift."""

from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.nets.claims import of_task, together
from experiments.nets.groups import Measured, measure
from experiments.nets.page_text import head
from experiments.nets.pictures import begun
from experiments.nets.plan import (
    ARMS,
    DPSGD,
    ONE,
    SSGD,
    STAR,
    chosen_std,
    ladder,
    noise_is_lost,
    stds,
)
from experiments.nets.rows import read
from experiments.nets.size import Task, study

HEADING = markdown(["is it so that ...?", "criterion", "measured", "holds"], [])


PICTURE = """\
![test error of each run](results/nets.png)

A run that did not survive is hollow, one without a finite loss is not shown (speech); /2 is half of
SSGD's edge.
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("nets.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), read(scale))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    parts = [
        head(made.size),
        provenance(made.rows),
        not_run_yet(missing(made)),
        PICTURE if begun(made) else "",
        "## All nets on images together\n",
        claims.table(HEADING, together(made.size), made),
        *(part for task in made.size.tasks for part in _task(made, task)),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each net and method that has missing runs: how many are to come."""
    lines = []
    for task in made.size.tasks:
        found = {ARMS[arm]: count for arm, count in left(made, task).items() if count}
        if made.edge(task) is None:
            lines.append(f"{task.label}: the trials that find SSGD's edge, and all that follows")
        elif found:
            counts = ", ".join(f"{count} of {arm}" for arm, count in found.items())
            lines.append(f"{task.label}, judged runs: {counts}")
    return lines


def left(made: Measured, task: Task) -> dict[str, int]:
    """How many judged runs of each method are to come."""
    seeds = len(made.size.seeds)
    places = {SSGD: range(task.cells), DPSGD: range(task.cells), STAR: range(1), ONE: range(1)}
    found = {
        arm: sum(seeds - len(made.at((task, arm, k))) for k in ks) for arm, ks in places.items()
    }
    return found | {STAR: 0} if noise_is_lost(task, made.size, made.known) else found


def _task(made: Measured, task: Task) -> list[str]:
    """What there is of one net: its verdicts, methods and trials."""
    parts = [f"## {task.label}\n", claims.table(HEADING, of_task(task), made)]
    if any(row.task == task.name for row in made.rows):
        parts += [_methods(made, task), _trials(made, task)]
    return parts


def _methods(made: Measured, task: Task) -> str:
    """A line for each method and rate: survivors and their numbers."""
    places = [(arm, k) for k in range(task.cells) for arm in (SSGD, DPSGD)]
    lines = []
    for arm, k in (*places, (STAR, 0), (ONE, 0)):
        cell, rows = made.cell((task, arm, k)), made.at((task, arm, k))
        alive = [row for row in rows if row.survived]
        lines.append(
            [
                ARMS[arm],
                "-" if cell is None else f"{cell.batch:,}",
                "-" if cell is None else f"{cell.alpha:g}",
                f"{len(alive)} of {len(rows)}" if rows else "-",
                mean([measure(row, task) for row in alive]),
                mean([row.train_loss for row in alive], ".3f"),
            ]
        )
    heads = ["", "nB", "peak rate", "survived", f"survivors' {task.measure}", "training loss"]
    return markdown(heads, lines)


def _trials(made: Measured, task: Task) -> str:
    """What came of the trials on the tuning seed."""
    size = made.size
    rates = {rate: made.known(_name(task, rate, size.tuning_seed)) for rate in
             ladder(task, size, made.known)}  # fmt: skip
    said = ", ".join(
        f"{rate:g} {'survived' if row.survived else 'failed'}" for rate, row in rates.items() if row
    )
    best = chosen_std(task, size, made.known)
    tried = ", ".join(f"{std:.3g}" for std in stds(task, size, made.known))
    noise = "" if best is None else f" σ_0 tried: {tried}; least validation loss at {best:.3g}."
    if noise_is_lost(task, size, made.known):
        noise = f" σ_0 tried: {tried}; all without a finite loss, so SSGD\\* is not judged."
    survived = [row.survived for row in rates.values() if row]
    none = " SSGD failed at none: its edge lies beyond." if survived and all(survived) else ""
    seed = size.tuning_seed
    return f"Trials of SSGD on seed {seed}, by peak rate: {said or 'none'}.{none}{noise}\n"


def _name(task: Task, rate: float, seed: int) -> str:
    return f"{task.name}-{SSGD}-batch{task.batch}-alpha{rate:g}-seed{seed}"
