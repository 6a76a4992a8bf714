"""experiments/fight.md is written from the committed table alone, so that it cannot drift."""

from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.fight import doubling
from experiments.fight.claims import DOUBLED, EDGE_CLAIMS, MARGIN, OVERALL, STEP, of_cell
from experiments.fight.doubling import TABLES, doubled, halved
from experiments.fight.groups import Measured
from experiments.fight.methods import METHODS
from experiments.fight.plan import EDGE, FIGHT, chosen, key, tried
from experiments.fight.rows import read
from experiments.fight.size import Cell, Size, study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/fight/page.py, not this file. -->
# SSGD against DPSGD: rates that each survives, and each at its best

Three questions. *Which learning rates does a method survive?* *Which method is better when each has
the rate that is best for it?* And *what becomes of them as batch and rate grow together*, as the
paper has it? A method that bears larger rates need not be the better one.

{learners} learners, 784-50-50-10 ReLU, inputs in [0, 1], float32, a constant rate except in the
tables. All methods have the
same data, start and mini-batches. The graphs: W = 11ᵀ/n; a ring; one peer, whose distance is 1, 2,
4 in turn (at n = 5 three steps do not average exactly); a random neighbour, new at each step (at
n = 5 one of them is alone). *Survived*: not diverged, and a test error at the end below {failed}.
Near the edge of stability a seed controls nothing, so runs are compared unpaired. Intervals are of
95 % and not corrected for being many.

**The edge.** nB = {edge_batch:,}, {edge_steps:,} steps, no momentum, {edge_seeds} fresh seeds at
each of {alphas} rates. A logistic curve in ln α for each method gives α_50, the rate that half of
its runs survive, with a bootstrap's interval. A method is judged when all its runs are there;
α_50 of fewer is shown, and no verdict rests on it. Where most of a method's runs survive even the
largest rate, or few the least, its α_50 is not known and what compares it is open, however clear
the counts are. Twenty seeds tell a survival of .9 from one of .5 with probability .84 at one rate;
at seven, α_50 of 1.6 from 1.2 almost always, from 1.45 in 4 to 7 cases of ten as the curve is flat
or steep. *As large* is: at most {step:g} less, one step of the grid.

**The fight.** nB of 500, 2,000 and 8,000, with momentum 0.9 and without, {samples:,} samples each,
{validation:,} of the training set held out. Every method of every cell is tried on seed {tuning},
which is not judged, with rates {rates} (a fourth of them with
momentum); the grid grows by a factor of two at an end as long as the best validation error is
there, at most {further} times: a best rate that is still at an end is marked, and of rates that tie
the least is taken. That rate goes through {seeds} other seeds. Differences are of test errors at
the end, in points, with Welch's interval, over runs that survived; a verdict for the side that lost
more of them in any one cell is open. That one seed chose the rates is not in the intervals. *As
good* is: less than {margin:g} points worse. *Both tuned* is the mean over the six cells.

**The tables.** The paper multiplies batch and rate alike, and halves the rate where a method then
fails (its Tables 1, 3 and 4, on ImageNet and speech). Here: nB of {least:,} with a peak rate of
{least_rate:g}, both up to {most} times as large; then, at the largest, the rate halved up to
{halvings} times. Momentum 0.9, weight decay 1e-4, linear warm-up over the first twentieth, a tenth
of the rate after 30, 60 and 90 %, {doubling_samples:,} samples, {doubling_seeds} seeds; nothing is
tuned but by the halving, to the largest rate that more than half of a method's own runs survive:
the seeds that choose this rate are those that are judged at it.
One run of a seed that is not judged was seen in five of the cells before the criteria were written.

Cut for two cores: MNIST and one small net; five learners, of which a ring already joins each with
half of the others; one tuning seed; {edge_steps:,} steps, {samples:,} samples; SSGD\\* is not in it
([DPSGD's page](dpsgd.md) has it); two of the four graphs in the tables. A run is 17 to 30 core
seconds on a quiet core, one of the tables 6 to 13: all of the edge ({edge_runs} runs) is about 4
core hours, of the fight (some {fight_runs} runs) about 3, of the tables ({table_runs} runs) less
than 1. The edge begins with {first} seeds of all methods; then SSGD and W = 11ᵀ/n, then the others.

Commands: `python -m experiments.fight` makes the runs, in `runs/experiments/fight`, and goes on
where it was stopped; `--parts edge`, `fight` or `tables` makes one part. `python -m
experiments.publish` makes this page, its table and its pictures. One row per run:
[fight.csv](results/fight.csv).
"""
HEADING = ["is it so that ...?", "criterion", "measured", "holds"]


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("fight.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), read(scale))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    parts = [
        _head(made.size),
        provenance(made.rows),
        not_run_yet(missing(made)),
        "## Survival over the learning rate\n",
        "![share of runs that survive](results/fight_edge.png)\n" if made.count(EDGE) else "",
        _edge(made) if made.count(EDGE) else "",
        claims.table(markdown(HEADING, []), EDGE_CLAIMS, made),
        "## Each at its best rate\n",
        "![error over the learning rate](results/fight.png)\n" if made.count(FIGHT) else "",
        claims.table(markdown(HEADING, []), OVERALL, made),
        *(part for cell in made.size.cells for part in _cell(made, cell)),
        "## The paper's recipe as the batch grows\n",
        _doubled(made) if made.count(TABLES) else "",
        claims.table(markdown(HEADING, []), DOUBLED, made),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each part that has missing runs: what it is, and how many."""
    return [f"{what}: {count} runs" for what, count in left(made).items() if count]


def left(made: Measured) -> dict[str, int]:
    """How many runs are to come, of each method at the edge, each cell of the fight, the tables."""
    planned = len(made.size.edge_seeds) * len(made.size.alphas)
    edge = {
        f"edge, {method.label}": planned - sum(cell.runs for cell in made.edge(name))
        for name, method in METHODS.items()
    }
    tuned = {f"fight, {title(cell)}": made.left(cell) for cell in made.size.cells}
    tables = doubling.runs(made.size).keys() - {row.key for row in made.rows}
    return edge | tuned | {TABLES: len(tables)}


def title(cell: Cell) -> str:
    """What a cell is called."""
    return (
        f"nB = {cell.batch:,}, {f'momentum {cell.momentum:g}' if cell.momentum else 'no momentum'}"
    )


def _head(size: Size) -> str:
    return HEAD.format(
        learners=size.learners,
        failed=f"{100 * size.failed:g} %",
        edge_batch=size.edge_batch,
        edge_steps=size.edge_steps,
        edge_seeds=len(size.edge_seeds),
        alphas=len(size.alphas),
        step=STEP,
        samples=size.samples,
        validation=size.validation,
        tuning=size.tuning_seed,
        rates=", ".join(f"{alpha:g}" for alpha in size.rates),
        seeds=len(size.seeds),
        further=size.further,
        margin=MARGIN,
        first=size.first,
        least=size.least_batch,
        least_rate=size.least_rate,
        most=size.factors[-1],
        halvings=size.halvings,
        doubling_samples=size.doubling_samples,
        doubling_seeds=len(size.doubling_seeds),
        table_runs=len(doubling.runs(size)),
        edge_runs=len(METHODS) * len(size.alphas) * len(size.edge_seeds),
        fight_runs=len(METHODS) * len(size.cells) * (len(size.rates) + len(size.seeds)),
    )


def _edge(made: Measured) -> str:
    """A line for each method: survivors at each rate, and alpha_50."""
    lines = []
    for name, method in METHODS.items():
        cells = {cell.alpha: cell for cell in made.edge(name)}
        counts = [
            f"{cells[alpha].survived}/{cells[alpha].runs}" if alpha in cells else "-"
            for alpha in sorted(made.size.alphas)
        ]
        half = made.alpha_50(name)
        lines.append([
            method.label, *counts,
            "-" if half is None else f"{half:.2f}",
        ])  # fmt: skip
    rates = (f"α = {alpha:g}" for alpha in sorted(made.size.alphas))
    return markdown(["survived", *rates, "α_50 so far, 95 %"], lines)


def _cell(made: Measured, cell: Cell) -> list[str]:
    """What there is of one cell: its verdicts, methods and trials."""
    judged = claims.table(markdown(HEADING, []), of_cell(cell), made)
    trials = {name: tried(cell, name, made.size, made.error) for name in METHODS}
    rates = sorted({alpha for found in trials.values() for alpha in found})
    lines = [
        [METHODS[name].label, *(_trial(made, cell, name, alpha) for alpha in rates)]
        for name in METHODS
    ]
    parts = [f"### {title(cell)}\n", judged]
    if any(text != "-" for line in lines for text in line[1:]):
        heads = ["validation error, %, one seed", *(f"α = {alpha:g}" for alpha in rates)]
        parts += [_methods(made, cell), markdown(heads, lines)]
    return parts


def _methods(made: Measured, cell: Cell) -> str:
    lines = []
    for name, method in METHODS.items():
        best, found = chosen(cell, name, made.size, made.error), made.tuned(cell, name)
        is_end = best is not None and made.is_at_end(cell, name)
        lines.append(
            [
                method.label,
                "-" if best is None else f"{best:g}" + (" (end of the grid)" if is_end else ""),
                f"{sum(row.survived for row in found)} of {len(found)}" if found else "-",
                mean([100 * row.test_error for row in found if row.survived]),
                mean([row.train_loss for row in found if row.survived], ".3f"),
            ]
        )
    head = ["", "best α", "survived", "survivors' test error, %", "their training loss"]
    return markdown(head, lines)


def _doubled(made: Measured) -> str:
    """A line for each batch and rate of the paper's recipe: survivors and their error."""
    lines = []
    for batch, alpha in [*doubled(made.size), *halved(made.size)[1:]]:
        texts = []
        for name in made.size.doubling:
            found = made.doubled(name, batch, alpha)
            alive = [100 * row.test_error for row in found if row.survived]
            texts.append(f"{mean(alive)} ({len(alive)} of {len(found)})" if found else "-")
        lines.append([f"{batch:,}", f"{alpha:g}", *texts])
    labels = (METHODS[name].label for name in made.size.doubling)
    return markdown(["nB", "peak α", *labels], lines) + (
        "\nSurvivors' test error, %, and how many of how many they are.\n"
    )


def _trial(made: Measured, cell: Cell, name: str, alpha: float) -> str:
    """The validation error of a trial, bold if it is the best of its method."""
    error = made.error(key(cell, name, alpha, made.size.tuning_seed))
    if error is None:
        return "-"
    shown = "diverged" if error > 1 else f"{100 * error:.2f}"
    return f"**{shown}**" if alpha == chosen(cell, name, made.size, made.error) else shown
