"""The section of experiments/lena.md on the tuned tables, from their committed table alone."""

import math

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, provenance
from experiments.common.scale import Scale
from experiments.lena.tuned import plan
from experiments.lena.tuned.claims import CLAIMS
from experiments.lena.tuned.groups import Measured, points
from experiments.lena.tuned.picture import PICTURE
from experiments.lena.tuned.plan import METHODS, Cell
from experiments.lena.tuned.rows import TABLE, read

HEAD = """\
## Tables 1 and 2 with the rate tuned in every cell, E = {epochs:g}

The tables further below give every method the base rate that is best for one worker, as the paper
does, on {short:g} epochs and two seeds. Here each method is tuned at each n, on {epochs:g} epochs:
{updates}.
All else is as there.

A cell (a method at one n) is tried on seed {tuning}, which is not judged, with three base rates a
factor of two apart; the grid grows at an end as long as the best validation error, *at the end of
the run*, is there, at most {further} times. That rate goes through {seeds} other seeds, which are
judged by their *test* error at the end: nothing was chosen on the test set, and no best of several
evaluations is taken. Differences are in points, with Welch's 95 % interval over seeds, not
corrected for being many; that one seed chose the rates is not in them. With a spread of 0.25 points
between seeds an interval is 0.36 points to either side at one n, 0.24 for the mean over both: a
smaller difference stays open. A lost run has the error of guessing.

A run takes 60 to 90 CPU seconds on a quiet core, all {cells} cells about 1.5 core hours; the core
minutes below are wall time on one thread, up to five times as much where the machine was shared.
Cut for that: five of the nine cells of Table 2 (linear scaling
and AdaScale under other warm-ups, LENA without one), about 2 core hours more; CIFAR-10; n of 8, 32
and 128. The cells come in the order of the table of methods.
`python -m experiments.lena --parts tuned` makes these runs, in
`runs/experiments/lena-tuned`; a row per run: [{table}](results/{table}).
"""


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(plan.size(scale), plan.study(scale), read(scale))


def text(scale: Scale) -> str:
    """The section."""
    made = measured(scale)
    parts = [
        _head(scale, made),
        provenance(made.rows) if made.rows else "",
        not_run_yet(missing(made)),
        claims.table(
            markdown(["is it so that ...?", "criterion", "measured", "holds"], []), CLAIMS, made
        ),
        f"![errors over the base rate](results/{PICTURE})\n" if made.rows else "",
        _methods(made) if made.rows else "",
        _trials(made) if made.rows else "",
    ]
    return "\n".join(part for part in parts if part)


def missing(made: Measured) -> list[str]:
    """A line for each cell that has missing runs."""
    counts = {cell: made.left(cell) for cell in made.size.cells}
    return [f"{title(cell)}: {count} runs" for cell, count in counts.items() if count]


def title(cell: Cell) -> str:
    """What a cell is called."""
    return f"{METHODS[cell.method].label}, n = {cell.n}"


def _head(scale: Scale, made: Measured) -> str:
    task, batch = made.size.task, made.shared.batch
    batches = task.epochs * task.samples / batch
    updates = ", ".join(
        f"{math.ceil(batches / n):,} updates at n = {n}" for n in made.size.learners
    )
    return HEAD.format(
        epochs=task.epochs,
        short=plan.lena.study(scale).main.epochs,
        updates=updates,
        tuning=made.size.tuning_seed,
        further=made.size.further,
        seeds=len(made.size.seeds),
        cells=len(made.size.cells),
        table=TABLE,
    )


def _methods(made: Measured) -> str:
    lines = []
    for cell in made.size.cells:
        lr, found = made.chosen(cell), made.judged(cell)
        end = " (end of the grid)" if lr is not None and made.is_at_end(cell) else ""
        layers = max((row.layers for row in found), default=0)
        alive = [row for row in found if not row.lost]
        lines.append(
            [
                str(cell.n),
                METHODS[cell.method].label,
                "-" if lr is None else f"{lr:g}{end}",
                f"{len(found)}, {len(found) - len(alive)} lost" if found else "-",
                mean(points(row) for row in alive),
                mean((row.train_loss for row in alive), ".3f"),
                f"{max(row.cold for row in found)} of {layers}" if layers else "-",
            ]
        )
    head = ["n", "", "base rate", "judged runs", "test error, %", "training loss", "never warm"]
    return markdown(head, lines) + (
        "\nMeans are of runs that are not lost; never warm: layers, the most of any run.\n"
    )


def _trials(made: Measured) -> str:
    """Validation errors of the trials, the best in bold."""
    lines = []
    for cell in made.size.cells:
        error, best = made.error(cell), made.chosen(cell)
        cells = [_trial(lr, error(lr), lr == best) for lr in made.tried(cell)]
        lines.append([str(cell.n), METHODS[cell.method].label, ", ".join(cells)])
    return markdown(["n", "", "base rate: validation error of one seed, %"], lines)


def _trial(lr: float, error: float | None, is_best: bool) -> str:
    shown = "-" if error is None else "lost" if not math.isfinite(error) else f"{100 * error:.2f}"
    return f"{lr:g}: " + (f"**{shown}**" if is_best else shown)
