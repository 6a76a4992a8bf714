"""experiments/flatness.md is written from the committed table alone, so that it cannot drift."""

import math
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.flatness import contours
from experiments.flatness.claims import CONTROLS, OF_RATES
from experiments.flatness.groups import MISSING, UNEVEN, Measured
from experiments.flatness.plan import ARMS
from experiments.flatness.rows import Row, read
from experiments.flatness.size import Cell, study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/flatness/page.py, not this. -->
# Is DPSGD's minimum flatter, at the same training loss?

The DPSGD paper says that its noise leads to flatter minima, which generalise better. Curvature
depends on the loss that it is measured at, so each run is measured where the loss of its mean
model, on all training samples, is for the first time at most {levels}: λ_max and
trace of the Hessian, the rise of the loss in random directions and up the gradient, test loss and
error, and DPSGD's learners about their mean ([what each is](../docs/mathematics.md#landscape)).
Anybody can do this with options: `--checkpoint-every 5 --checkpoint-keep 100000`, then
`python -m gossip.landscape runs/NAME --at-loss 0.1`.

{learners} learners, nB = {batch:,}, 784-50-50-10 ReLU, inputs in [0, 1], float32, plain SGD at a
constant α, a small one and a large one that SSGD just bears; {samples:,} of MNIST's training
samples, so that a low loss is soon there (`--validation {held_out}`); errors are those of the whole
test set. Checkpoints are {every} steps apart, and a run is measured at the first of them that is at
the level: a loss that oscillates may have been there between two. The rise up the gradient is ρ‖g‖
to first order, which is no curvature: ‖g‖ stands beside it. {seeds} fresh seeds: start and
mini-batches are the same for all three ways to train, so each is compared with SSGD of its seed, by
the geometric mean of ratios, with Student's 95 % interval, not corrected for being many. A verdict
is *yes* if the whole interval meets the criterion at all levels, *no* if none of it does at one of
them. "By 10 %": a ratio below 0.9.

A level says neither yes nor no where the losses themselves are not the same (the whole interval of
their ratio within 5 %), where more than {missing} of {seeds} pairs lack a run that came there,
where one side lost over {uneven} run more than the other, or where a number is there that has no
ratio, such as a trace below 0. Barrier and learners are compared with the loss of their own mean
model, and of these conditions have those on runs and numbers.

Commands: `python -m experiments.flatness` makes the runs, in `runs/experiments/flatness`, measures
them, and goes on where it was stopped; `python -m experiments.publish` makes this page, its table
and its pictures. A row for each level of each run: [flatness.csv](results/flatness.csv).
"""

PICTURED = """\
![Contours of the loss](results/flatness_contours.png)

The loss about one run of each kind at a training loss of {level:g} (seed {seed}, the first judged):
for the eye, no verdict is from it. All lines are at the same levels, a factor of √2 apart. Left and
middle: two random directions, the same for all, each filter as long as that of the mean model.
Right: the plane through the mean model that is closest to all learners.
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("flatness.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), tuple(read(scale)))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    size = made.size
    head = HEAD.format(
        levels=_list(f"{level:g}" for level in size.levels),
        learners=size.learners,
        batch=size.total_batch,
        samples=size.settings.samples,
        held_out=size.held_out,
        every=_list(dict.fromkeys(str(cell.every) for cell in size.cells)),
        seeds=len(size.seeds),
        missing=MISSING,
        uneven=UNEVEN,
    )
    timed = [row for row in made.rows if math.isfinite(row.seconds)]
    parts = [
        head,
        provenance(timed),
        not_run_yet(missing(made)),
        "![DPSGD over SSGD at equal loss](results/flatness.png)\n" if made.rows else "",
    ]
    if contours.read(scale):
        parts.append(PICTURED.format(level=size.shown_level, seed=size.seeds[0]))
    titles = markdown(["is it so that ...?", "criterion", "loss: measured", "holds"], [])
    for cell, of_rate in zip(size.cells, OF_RATES, strict=True):
        parts += [
            f"## α = {cell.alpha:g}\n",
            claims.table(titles, of_rate, made),
            _levels(made, cell),
        ]
    parts += [
        "## Do the measures see what is known?\n",
        claims.table(titles, CONTROLS, made),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each arm that has missing runs; none if all are finished."""
    planned, first = len(made.size.seeds), made.size.levels[0]
    return [
        f"α = {cell.alpha:g}, {arm.label}: {count} of {planned} runs"
        for cell in made.size.cells
        for name, arm in ARMS.items()
        if (count := planned - len(made.at(cell, name, first)))
    ]


def _list(words: Iterable[str]) -> str:
    """Words with commas, and an "and" before the last."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _levels(made: Measured, cell: Cell) -> str:
    """A line for each level and arm: how many came to it, and means over these."""
    lines = []
    for level in made.size.levels:
        for name, arm in ARMS.items():
            found = made.at(cell, name, level)
            if found:
                lines.append([f"{level:g}", arm.label, *_cells(found)])
    head = ["loss", "", "came to it", "steps", "λ_max", "trace", "random", "up g", "‖g‖",
            "test loss", "test error, %", "Ξ", "barrier", "behind", "learners",
            "beyond"]  # fmt: skip
    if not lines:
        return ""
    note = (
        "\nBehind, learners, beyond: how much the loss rises from the mean w_a to 2w_a - w_j, w_j "
        "and 2w_j - w_a, mean over the learners.\n"
    )
    return markdown(head, lines) + note


def _cells(found: list[Row]) -> list[str]:
    there = [row for row in found if row.step >= 0]
    if not there:
        return [f"0 of {len(found)}", *["-"] * 13]
    apart = [row.learners_loss - row.loss for row in there if row.consensus_distance > 0]
    return [
        f"{len(there)} of {len(found)}",
        f"{fmean(row.step for row in there):.0f}",
        mean([row.lambda_max for row in there], ".3g"),
        mean([row.trace for row in there], ".3g"),
        mean([row.random for row in there], ".2g"),
        mean([row.ascent for row in there], ".2g"),
        mean([row.grad_norm for row in there], ".2g"),
        mean([row.test_loss for row in there], ".3f"),
        mean([100 * row.test_error for row in there]),
        *(
            mean(values, ".2g") if apart else "-"
            for values in (
                [row.consensus_distance for row in there],
                [row.barrier for row in there],
                [row.behind for row in there],
                apart,
                [row.beyond for row in there],
            )
        ),
    ]
