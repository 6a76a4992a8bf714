"""experiments/lena.md is written from the committed table alone, so that it cannot drift."""

import math
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
from experiments.lena import plan
from experiments.lena.claims import CLAIMS
from experiments.lena.plan import (
    DIAGONAL,
    SCALINGS,
    SINGLE,
    SMALL,
    WARMUPS,
    Study,
    Task,
    cell,
    halves,
    key,
    lena_at,
)
from experiments.lena.rows import SLACK, read_csv
from experiments.lena.tables import Rows, until
from experiments.lena.tuned import section

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/lena/page.py, not this file. -->
# The LENA paper's study: what reproduces, and what does not

LENA (Ko, Lee and Kim, WWW 2022) gives every layer the learning rate that its own gradient variance
allows, and a warm-up that lasts as long as the layer needs. Here it is beside linear scaling with
a fixed warm-up (LSW) and AdaScale: with the rate tuned for each over {long:g} epochs, which is what
decides between them, and as in the paper at one worker's rate, the whole product of scalings and
warm-ups, over {epochs:g}.

Fashion-MNIST, standardised, 5,000 training samples held out evenly over the classes, disjoint from
the {samples:,} that are trained on; `cnn`, 39,546 parameters in 8 tensors ("layers", as in the
authors' code). SSGD, batches of {batch} per learner, momentum 0.9, weight decay 5e-4, rates that
fall exponentially to 1 % over E epochs. One permutation of the samples per epoch, dealt to all; all
runs of a seed start from the same weights. Warm-ups: fixed 5.5 % of the run, state-aware
alpha = 5 %; AdaScale's progress is counted in epochs, so that all runs see equally many samples.

Commands: `python -m experiments.lena` makes the runs and goes on where it was stopped;
`python -m experiments.publish` makes this page, its tables and its pictures of those that are
finished; `--smoke` tries the code in seconds.
"""

SHORT = """## At the single worker's rate, E = {epochs:g}

So {single} batches in every run: {single} updates for one learner, {fewest} for n = {most}. The
base rate is the best of {rates} for **one learner alone** (best validation error, seed 0), and then
used by all, as in the paper. One row per run, with more columns: [lena.csv](results/lena.csv).

How to read the tables: errors in % on the held-out samples, mean ± standard deviation over seeds
(single worker {base_seeds}, Tables 1 and 2 {seeds}, else one). *Lost* runs diverged or ended with
less than half of their best accuracy; they are counted and not averaged, and in the criteria
they have the error of guessing. The target is the single worker's best error, mean over its
seeds; the easier one is {slack:g} points above. N/A: never reached; (1 of 2): how many did. Test
errors are those where the validation error was lowest; it is measured about {evaluations} times.
"""

CRITERIA = """\
Criteria were written down before the runs were made. They are all or nothing, on means of two seeds
one of which had tuned the base rate, over the best of some twelve evaluations: a difference of a
tenth of a point is a yes or a no. Where the tuned tables ask the same, theirs is the verdict.
"""

READING = """\
## In short

Our reading of the tables at the single worker's rate; the tuned ones judge by themselves.

- Scaling by gradient variance works: where linear scaling dies at the single worker's rate,
  AdaScale and LENA train at every n. LENA's rate for every layer has the lowest mean error under
  each warm-up, but by tenths of a point against AdaScale.
- LENA's state-aware warm-up is what costs it Table 1 at that rate. In 4 epochs at n = 64 or more,
  half of the layers or more are never warm; the shorter the warm-up (Table 3), the better, and
  none is best.
- Gradient variance grows as the model learns and differs between layers as the paper shows.
- The state-aware warm-up mostly rescues linear scaling, which has nothing else that holds it back.
"""

CAVEATS = """\
## Where we differ, and what the published numbers are

- The paper has ResNet-18/50 on CIFAR-10/100 with b = 128 and 200 or 300 epochs. We have a small
  net, b = 32 and few epochs, because this has to run on two cores: at large n there are few
  updates, which is harder on every method. Absolute numbers cannot be compared, orders can.
- The authors' loader draws training and validation samples by two independent splits: about 90 %
  of their validation images are training images too, so their targets are inflated. Ours are
  disjoint, and the target is our own single worker's.
- The published seconds are emulated on 8 workers: n/8 micro-batches in turn, and one
  synchronisation. Ours are those of one core that computes all n learners' gradients in turn, and
  so measure work, not speed: with linear scaling alone, which needs no single gradients, the
  learners' batches are computed as one.
- AdaScale has no warm-up in Table 1, as in its own paper, where the gain starts at 1 by itself;
  with the fixed one it is a line of Table 2. Linear scaling and AdaScale have no layers: under the
  state-aware warm-up they add up the whole model's gradient variance, and the gain.
- Gradient variance is clipped to [1, n] (the paper claims that range; it has no upper limit) and
  averaged with a correction for the start at zero, which the authors' code does not have.
- The base grid was centred by a pilot of the single worker: five runs of one epoch on seed 0.
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("lena.md")


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    rows = Rows(plan.study(scale), read_csv(scale.results / "lena.csv"))
    parts = [
        HEAD.format(
            samples=rows.study.main.samples,
            batch=rows.study.batch,
            long=section.measured(scale).size.task.epochs,
            epochs=rows.study.main.epochs,
        ),
        "" if scale.is_smoke else READING,
        section.text(scale),
        _short(rows.study),
        provenance(rows.found.values()),
        not_run_yet(missing(rows)),
        "### The paper's statements\n",
        CRITERIA,
        claims.table(markdown(["the paper", "criterion", "measured", "holds"], []), CLAIMS, rows),
        _base(rows),
        _table1(rows),
        _table2(rows),
        _table3(rows),
        _layers(rows),
        _variance(rows),
        _small(rows),
        CAVEATS,
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def wanted(made: Study, rows: Rows) -> dict[str, list[str] | None]:
    """The names of all runs of each part; None where they depend on a base rate not known yet."""
    found: dict[str, list[str] | None] = {
        "base rate": list(plan.base_grid(made, made.main)),
        "base rate of cifar": list(plan.base_grid(made, made.small)),
    }
    for name in plan.PARTS:
        lr = rows.base_rate(made.small if name == "cifar" else made.main)
        found[name] = None if lr is None else list(plan.part(made, name, lr))
    return found


def missing(rows: Rows) -> list[str]:
    """A line for each part that has missing runs; none if all are finished."""
    lines = []
    for name, keys in wanted(rows.study, rows).items():
        if keys is None:
            lines.append(f"{name}: its base rate is not tuned")
        elif count := sum(key not in rows.found for key in keys):
            lines.append(f"{name}: {count} of {len(keys)} runs")
    return lines


def _short(made: Study) -> str:
    task = made.main
    single = task.epochs * task.samples / made.batch
    return SHORT.format(
        epochs=task.epochs,
        single=round(single),
        fewest=math.ceil(single / max(made.learners)),
        most=max(made.learners),
        rates=", ".join(f"{lr:g}" for lr in made.rates),
        base_seeds=made.base_seeds,
        seeds=made.seeds,
        slack=SLACK,
        evaluations=made.evaluations,
    )


def _trials(rows: Rows, task: Task) -> str:
    """Table of the single worker's errors at all base rates."""
    chosen, lines = rows.base_rate(task), []
    for lr in rows.study.rates:
        row = rows.found.get(key(task, SINGLE, 1, lr, 0))
        mark = " **chosen**" if lr == chosen else ""
        lines.append([f"{lr:g}{mark}", percent([row] if row else [])])
    edge = chosen in (min(rows.study.rates), max(rows.study.rates))
    note = "\nThe best is at the edge of the grid: a better one may lie outside.\n" if edge else ""
    return markdown(["base rate", "best error, %"], lines) + note


def _base(rows: Rows) -> str:
    singles = rows.singles()
    return (
        "### The single worker\n\n" + _trials(rows, rows.study.main) + "\n"
        f"Over {len(singles)} seeds: best {percent(singles)}, test {percent(singles, 'test_error')}"
        f", after half of the data {percent(singles, 'half_error')}. Its mean best error is the "
        "target.\n"
    )


def _table1(rows: Rows) -> str:
    lines = []
    for n in rows.study.learners:
        for name, parts in DIAGONAL.items():
            group = rows.group(cell(*parts), n)
            errors = [percent(group, e) for e in ("half_error", "best_error", "test_error")]
            reached = [
                until(group, "target_epochs"),
                until(group, "target_updates", ".0f"),
                until(group, "target_seconds", ".0f"),
                until(group, "easy_epochs"),
                until(group, "easy_updates", ".0f"),
            ]
            seconds = mean([row.seconds for row in group], ".0f")
            lines.append([str(n), name, *errors, *reached, seconds])
    head = [
        *("n", "", "after half of the data", "best", "test"),
        *("epochs to the target", "updates", "seconds", "epochs to the easier one", "updates"),
        "seconds, whole run",
    ]
    return (
        "### Table 1 and Fig. 6: accuracy, and time to the target\n\n"
        "![errors over n and what it takes to a target](results/lena_table1.png)\n\n"
        "![validation error over epochs](results/lena_fig6.png)\n\n" + markdown(head, lines)
    )


def _table2(rows: Rows) -> str:
    lines = [
        [scaling, warmup, *(percent(rows.group(cell(scaling, warmup), n)) for n in _ns(rows))]
        for scaling in SCALINGS
        for warmup in WARMUPS
    ]
    head = ["scaling", "warm-up", *(f"n = {n}" for n in _ns(rows))]
    return "### Table 2: scalings and warm-ups, best error\n\n" + markdown(head, lines)


def _ns(rows: Rows) -> tuple[int, ...]:
    return rows.study.learners


def _table3(rows: Rows) -> str:
    lines = [
        [
            f"{alpha:.0%}",
            *(percent(rows.group(lena_at(alpha), n, seeds=1)) for n in rows.study.few_learners),
        ]
        for alpha in rows.study.alphas
    ]
    head = ["alpha", *(f"n = {n}" for n in rows.study.few_learners)]
    return "### Table 3: the length of LENA's warm-up, best error, seed 0\n\n" + markdown(
        head, lines
    )


def _layers(rows: Rows) -> str:
    lines = []
    for n in rows.study.layer_learners:
        whole = rows.group(cell("lena", "state-aware"), n, seeds=1)
        draws = [row for r in halves(rows.study) for row in rows.group(r, n, seeds=1)]
        lines.append([str(n), percent(whole), percent(draws)])
    return (
        "### Fig. 4: a rate of its own for half of the layers, and for all\n\n"
        f"Seed 0; half of the layers drawn at random, {rows.study.share_seeds} times (their spread "
        "is shown); the others take the whole model's variance.\n\n"
        "![half of the layers and all](results/lena_layers.png)\n\n"
        + markdown(["n", "all layers, best error", "half of them"], lines)
    )


def _variance(rows: Rows) -> str:
    lines = []
    for n in rows.study.learners:
        group = [row for row in rows.group(cell("lena", "state-aware"), n) if not row.lost]
        names = ("grad_var_early", "grad_var_late", "layer_low", "layer_high")
        values = [mean([getattr(row, name) for row in group], ".1f") for name in names]
        ends = [mean([getattr(row, name) for row in group], ".2f") for name in _ENDS]
        cold = f"{max(row.cold for row in group)} of {group[0].layers}" if group else "-"
        lines.append([str(n), *values, *ends, cold])
    head = [
        *("n", "grad_var, first third", "last third", "layers from", "to"),
        *("first layer warm, epoch", "last", "never warm"),
    ]
    return (
        "### Figs. 2, 3 and 7: gradient variance, and when the layers are warm\n\n"
        "![gradient variance](results/lena_variance.png)\n\n"
        "![end of the warm-up](results/lena_warmup.png)\n\n"
        "LENA's runs; never warm: the most of any seed.\n\n" + markdown(head, lines)
    )


_ENDS = ("warm_first", "warm_last")


def _small(rows: Rows) -> str:
    made, task = rows.study, rows.study.small
    singles = rows.group(SINGLE, 1, task=task, seeds=1)
    lines = [["1", "single worker", percent(singles), percent(singles, "test_error"), "-"]]
    for n in made.small_learners:
        for name, recipe in SMALL.items():
            group = rows.group(recipe, n, task=task, seeds=1)
            errors = percent(group), percent(group, "test_error")
            lines.append([str(n), name, *errors, until(group, "easy_epochs")])
    head = ["n", "", "best", "test", "epochs to the easier target"]
    return (
        f"### A little of it on CIFAR-10\n\n`{task.model}`, {task.samples:,} samples, E = "
        f"{task.epochs:g}, one seed; DPSGD on a ring, without scaling or warm-up, at the single "
        "worker's rate.\n\n" + _trials(rows, task) + "\n" + markdown(head, lines)
    )
