"""experiments/rivals.md is written from the committed table alone, so that it cannot drift."""

from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import (
    markdown,
    mean,
    not_run_yet,
    page,
    percent,
    provenance,
)
from experiments.common.scale import Scale
from experiments.lena.plan import study
from experiments.lena.rows import SLACK, Row, read_csv
from experiments.lena.tables import Rows, until
from experiments.rivals import plan
from experiments.rivals.claims import CLAIMS
from experiments.rivals.plan import RIVALS, rates_tried, tuned_rows

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/rivals/page.py, not this file. -->
# Decentralised and large-batch training on equal terms

The papers on large batches do not have DPSGD among their rivals, and those on DPSGD do not have
large-batch rules. Here they are on the same task, samples, batches and seeds: Fashion-MNIST, the
small net and everything else of [the LENA study](lena.md), E = {epochs:g} epochs, batches of
{batch} per learner, momentum 0.9, weight decay 5e-4, rates that fall to 1 % (DATE: its own decay).

**Equal tuning**: every method has {trials} base rates, a factor of two apart, on seed 0 at every n;
the one with the lowest validation error goes through {seeds} seeds. The grids are where they make
sense for a method. A pilot on seed 0 centred them, 15 runs of one or two epochs: the single worker
(5), and at n = 64 LSW (2), LARS (2), LAMB (2), DATE (3) and LENA (1); none of DPSGD. SSGD, LSW and
DPSGD are tried with the same rates *after* scaling, {peaks}. A best rate at the edge of its grid
is marked: the method might do better outside. Linear scaling without warm-up is not here: with a
base rate of its own it is SSGD, and DPSGD, at n times the rate, run for run.

DPSGD: every learner has weights, momentum and weight decay of its own and averages while it
computes; the mean model is judged. LENA's rule needs the mean gradient, so DPSGD pays an
all-reduce for it here: it is a question to the rule, not a proposal. DATE has w_0 = 0.01 epochs of
warm-up for B_0 = B. LARS has trust coefficient {trust:g}: its usual 0.001 asks for rates at which
the biases, which it leaves to plain momentum, would diverge. LARS and LAMB have the fixed warm-up,
5.5 % of the run.

Commands: `python -m experiments.rivals` makes the runs, in `runs/experiments/lena` (those that both
studies have are made once); `python -m experiments.publish` makes this page, its table and its
picture. One row per run: [rivals.csv](results/rivals.csv).

Errors in % on the held-out samples, mean ± standard deviation over seeds; *lost*: diverged, or
ended with less than half of its best accuracy, counted and not averaged (in the criteria it has the
error of guessing). Test errors are those where the validation error was lowest. The target is the
single worker's mean best error; the easier one is {slack:g} points above.
"""


READING = """\
## In short

Our reading of the tables below; two seeds, one task, few updates.

- With equal tuning, adaptive methods win: LAMB, LARS and DATE lose the least as n grows. At n = 16
  LAMB and LARS keep the single worker's error; at n = 64 (107 updates) nothing does.
- Plain DPSGD on one-peer graphs is no worse than plain SSGD by these means, which two seeds cannot
  tell apart, and sends half the bytes. It does not close the gap to the tuned rules, and a ring is
  worse at n = 64.
- LENA's rule takes about half as many points off DPSGD's error as off SSGD's, and costs it the
  all-reduce that it lives without.
- That DPSGD bears larger rates does not show here. The trials, of one seed, with momentum and
  rates that fall, even point the other way at n = 16: at the highest rate SSGD trains, DPSGD on
  one-peer graphs is far worse, and on a ring it is lost. [The fight](fight.md) asks it of many.
- Best rates at the edge of a grid, LENA's and LARS's among them, might be better outside. Seed 0
  chose the rates and is one of the two that are judged: nothing here is a test.
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("rivals.md")


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    rows = Rows(study(scale), read_csv(scale.results / "rivals.csv"))
    parts = [
        _head(rows),
        provenance(rows.found.values()),
        not_run_yet(missing(rows)),
        "" if scale.is_smoke else READING,
        "## Questions\n",
        "Criteria were written down before the runs were made.\n",
        claims.table(
            markdown(["is it so that ...?", "criterion", "measured", "holds"], []), CLAIMS, rows
        ),
        "## Tuned, over seeds\n",
        "![best errors of all methods](results/rivals.png)\n",
        _results(rows),
        "## The trials, best error on seed 0\n",
        _trials(rows),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(rows: Rows) -> list[str]:
    """A line for each part that has missing runs; none if all are finished."""
    made, lines = rows.study, []
    parts = {
        "trials": plan.tuning(made),
        "tuned runs": plan.final(made, rows.error_of),
    }
    for name, runs in parts.items():
        count = sum(key not in rows.found for key in runs)
        if count:
            lines.append(f"{name}: {count} of {len(runs)} runs")
    cells = len(plan.rivals(made)) * len(made.rival_learners)
    open_cells = cells - len(plan.chosen(made, rows.error_of))
    if open_cells:
        lines.append(f"tuned runs of {open_cells} more methods and n, whose trials are missing")
    return lines


def _head(rows: Rows) -> str:
    made = rows.study
    return HEAD.format(
        epochs=made.main.epochs,
        batch=made.batch,
        trials=len(made.rates),
        seeds=made.seeds,
        peaks=", ".join(f"{peak:g}" for peak in plan.PEAKS),
        trust=plan.TRUST,
        slack=SLACK,
    )


def _results(rows: Rows) -> str:
    lines = [["1", "single worker", *_cells(rows, rows.base_rate(rows.study.main), _single(rows))]]
    chosen = plan.chosen(rows.study, rows.error_of)
    for n in rows.study.rival_learners:
        for name, rival in plan.rivals(rows.study).items():
            lr = chosen.get((name, n))
            grid = rival.rates(rows.study, n)
            group = tuned_rows(rows, name, n)
            lines.append([str(n), rival.label, *_cells(rows, lr, group, grid)])
    head = [
        *("n", "", "base rate", "best", "at the end", "test"),
        *("epochs to the easier target", "kB sent a step", "seconds"),
    ]
    return markdown(head, lines)


def _single(rows: Rows) -> list[Row]:
    return rows.singles()[: rows.study.seeds]


def _cells(
    rows: Rows, lr: float | None, group: list[Row], grid: tuple[float, ...] | None = None
) -> list[str]:
    grid = grid or rows.study.rates
    edge = " (edge)" if lr in (grid[0], grid[-1]) else ""
    return [
        "-" if lr is None else f"{lr:g}{edge}",
        *(percent(group, name) for name in ("best_error", "last_error", "test_error")),
        until(group, "easy_epochs"),
        mean([row.bytes_per_step / 1e3 for row in group[:1]], ".0f"),
        mean([row.seconds for row in group], ".0f"),
    ]


def _trials(rows: Rows) -> str:
    lines = []
    for n in rows.study.rival_learners:
        for name in plan.rivals(rows.study):
            tried = rates_tried(rows, name, n)
            cells = [f"{lr:g}: {percent([row] if row else [])}" for lr, row in tried.items()]
            lines.append([str(n), RIVALS[name].label, *cells])
    trials = range(1, len(rows.study.rates) + 1)
    return markdown(["n", "", *(f"trial {i}" for i in trials)], lines)
